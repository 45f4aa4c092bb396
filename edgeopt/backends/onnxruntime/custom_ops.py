"""Libraries with operators of the user's own."""

from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.errors import UsageError, said_by

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

_ENTRY_POINT = "RegisterCustomOps"


def register(libraries: tuple[str, ...], options: "SessionOptions") -> None:
    """Loads each of them; a UsageError says which does not load, and why."""
    for library in libraries:
        path = Path(library)
        if not path.is_file():
            raise UsageError(f"There is no library of custom operators at '{path}'.", "Check the path.")
        # Seen by itself first, as the runtime says in the same words that a file is no library and that it is bad.
        _check(path)
        try:
            options.register_custom_ops_library(str(path.resolve()))
        except Exception as error:
            from onnxruntime.capi import onnxruntime_pybind11_state as binding

            if type(error).__module__ != binding.__name__ and not isinstance(error, RuntimeError):
                raise
            raise UsageError(
                f"ONNX Runtime cannot take the custom operators of '{path.name}': {said_by(error)}",
                "Build the library against the installed version of ONNX Runtime.",
            ) from error


def _check(path: Path) -> None:
    import ctypes

    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise UsageError(
            f"The file '{path.name}' cannot be loaded as a library: {said_by(error)}.",
            "Give a shared library for this processor and system, with all that it needs installed.",
        ) from error
    if not hasattr(library, _ENTRY_POINT):
        raise UsageError(
            f"The library '{path.name}' has no function {_ENTRY_POINT}, so ONNX Runtime finds no operators in it.",
            "Give a library that was built as custom operators of ONNX Runtime.",
        )
