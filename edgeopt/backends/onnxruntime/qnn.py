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
        about("Hexagon tensor processor, Adreno GPU, or CPU reference"),
    ] = "htp"
    htp_performance_mode: Annotated[
        Literal[
            "default", "burst", "balanced", "high_performance", "sustained_high_performance", "high_power_saver",
            "power_saver", "low_balanced", "low_power_saver", "extreme_power_saver",
        ],
        about("Clock of the NPU: short peak, sustained, or low power",
              search=("burst", "sustained_high_performance")),
    ] = "default"  # fmt: skip
    htp_graph_finalization_optimization_mode: Annotated[
        Literal["0", "1", "2", "3"],
        about("Graph optimization effort when loading; 3: most", search=("0", "3")),
    ] = "0"
    qnn_context_priority: Annotated[
        Literal["low", "normal", "normal_high", "high"], about("Priority over other models on the NPU")
    ] = "normal"
    rpc_control_latency: Annotated[
        Count | None, about("Maximum latency of a call to the NPU, in µs; empty: QNN's default")
    ] = None
    vtcm_mb: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        about("Fast memory of the NPU to use, in MiB; empty: QNN's default"),
    ] = None
    enable_htp_fp16_precision: Annotated[bool, about("Runs float32 models in half precision on the NPU")] = True
    offload_graph_io_quantization: Annotated[
        bool, about("Quantizes inputs and outputs on the CPU instead of the NPU", search=(True, False))
    ] = True
    enable_htp_spill_fill_buffer: Annotated[bool, about("Parts of a model share a buffer")] = False
    enable_htp_shared_memory_allocator: Annotated[
        bool, about("Inputs and outputs in memory shared with the NPU; needs Qualcomm's libcdsprpc")
    ] = False
    soc_model: Annotated[Count, about("Chip number, to prepare for another chip")] = 0
    htp_arch: Annotated[Literal["0", "68", "69", "73", "75", "81"], about("NPU generation; 0: this one")] = "0"
    device_id: Annotated[Count, about("NPU number")] = 0


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
