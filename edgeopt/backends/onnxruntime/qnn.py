"""ONNX Runtime on Qualcomm's Hexagon NPU, through QNN; on other processors its simulator, which is slow."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.options import Count, OrtOptions
from edgeopt.backends.onnxruntime.provider import Provider, Settings
from edgeopt.backends.options import about


class QnnOptions(OrtOptions, frozen=True):
    backend_type: Annotated[
        Literal["htp", "gpu", "cpu"],
        about("Hexagon's tensor processor, the Adreno GPU, or a reference to compare"),
    ] = "htp"
    htp_performance_mode: Annotated[
        Literal[
            "default", "burst", "balanced", "high_performance", "sustained_high_performance", "high_power_saver",
            "power_saver", "low_balanced", "low_power_saver", "extreme_power_saver",
        ],
        about("The clock of the NPU: a short peak, what a fanless device holds, or less power",
              search=("burst", "sustained_high_performance")),
    ] = "default"  # fmt: skip
    htp_graph_finalization_optimization_mode: Annotated[
        Literal["0", "1", "2", "3"],
        about("How long it works on the graph at the load; 3 is longest", search=("0", "3")),
    ] = "0"
    qnn_context_priority: Annotated[
        Literal["low", "normal", "normal_high", "high"], about("Against other models on the same NPU")
    ] = "normal"
    rpc_control_latency: Annotated[
        Count | None, about("How long, in microseconds, a call to the NPU may wait; empty is QNN's own choice")
    ] = None
    vtcm_mb: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        about("Of the NPU's fast memory so many MiB; empty is QNN's own choice"),
    ] = None
    enable_htp_fp16_precision: Annotated[bool, about("Float32 models compute in half precision on the NPU")] = True
    offload_graph_io_quantization: Annotated[
        bool, about("The processor quantizes inputs and outputs, not the NPU", search=(True, False))
    ] = True
    enable_htp_spill_fill_buffer: Annotated[bool, about("Parts of one model share a buffer")] = False
    enable_htp_shared_memory_allocator: Annotated[
        bool, about("Inputs and outputs in memory that the NPU sees; needs Qualcomm's libcdsprpc")
    ] = False
    soc_model: Annotated[Count, about("The number of the chip, to prepare for another than this one")] = 0
    htp_arch: Annotated[
        Literal["0", "68", "69", "73", "75", "81"], about("The generation of the NPU; 0 is this one's")
    ] = "0"
    device_id: Annotated[Count, about("Which NPU")] = 0


def settings(options: QnnOptions, _model: Path) -> Settings:
    return {"backend_type": options.backend_type}


PROVIDER = Provider(
    name="onnxruntime-qnn",
    title="ONNX Runtime, QNN",
    key="QNNExecutionProvider",
    options=QnnOptions,
    distributions=("onnxruntime-qnn",),
    plugin="onnxruntime_qnn",
    unsent=("backend_type",),
    more=settings,
)
BACKEND = backend_of(PROVIDER)
