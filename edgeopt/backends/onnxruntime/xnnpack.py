"""ONNX Runtime on processors, through XNNPACK, whose kernels are made for phones and small Arm boards."""

from pathlib import Path
from typing import Annotated

from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.onnxruntime.provider import Provider, Settings
from edgeopt.backends.options import Threads, about


class XnnpackOptions(OrtOptions, frozen=True):
    # XNNPACK has threads of its own, which those of the runtime would hinder.
    spinning: Annotated[
        bool, about("Waiting threads of the runtime spin on cores that XNNPACK's threads need")
    ] = False
    intra_op_num_threads: Annotated[Threads, about("XNNPACK's threads; 0: as `threads`", search=(0, 1))] = 0


def settings(options: XnnpackOptions, _model: Path) -> Settings:
    threads = options.intra_op_num_threads or options.threads
    return {"intra_op_num_threads": str(threads)} if threads else {}


PROVIDER = Provider(
    name="onnxruntime-xnnpack",
    title="ONNX Runtime, XNNPACK",
    key="XnnpackExecutionProvider",
    options=XnnpackOptions,
    distributions=(),
    unsent=("intra_op_num_threads",),
    more=settings,
)
BACKEND = backend_of(PROVIDER)
