"""Turns off the usage reports that runtimes send to their makers."""

import os
import sys

_ONNXRUNTIME = "ORT_DISABLE_TELEMETRY"
_OPENVINO = "openvino_telemetry"


def keep_runtimes_quiet() -> None:
    """Disables the runtimes' telemetry; must be called before any runtime is imported, here or in a child.

    ONNX Runtime sends names and hashes of models, and keeps a file and a thread for that; the variable counts on
    Linux and macOS. OpenVINO reports each import from a fork of the process, which outlives a crash and holds the
    pipes that its parent waits on. Users who want that set the variable to 0, or import OpenVINO's package first.
    """
    os.environ.setdefault(_ONNXRUNTIME, "1")
    # To its importers a package that is not installed, which they are ready for.
    sys.modules.setdefault(_OPENVINO, None)  # type: ignore[arg-type]
