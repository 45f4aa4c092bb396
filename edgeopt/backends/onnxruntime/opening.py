"""Creation of ONNX Runtime sessions for a provider, without silent fallbacks."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.onnxruntime.options import OrtOptions, dimensions, session_options
from edgeopt.backends.onnxruntime.provider import CPU, Provider, installed_wheel
from edgeopt.backends.protobuf import GRAPH, opened, parts, text
from edgeopt.errors import MissingError, MissingExtraError, ModelError, UsageError, error_text
from edgeopt.hw.provider_wheels import ProviderWheel, devices, register
from edgeopt.nearest import nearest

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

Listed = str | tuple[str, dict[str, str]]


def session_options_for(options: OrtOptions, backend: str) -> "SessionOptions":
    try:
        return session_options(options, backend)
    except ImportError as error:
        raise MissingExtraError("cpu", f"The backend {backend}") from error


def open_with(provider: Provider, path: Path, options: OrtOptions, made: "SessionOptions") -> "InferenceSession":
    """Returns a session with the provider in it; raises a MissingError if the provider does not start."""
    provider.prepare()
    settings = provider.settings(options, path)
    wheel = installed_wheel(provider)
    if wheel:
        _add_wheel(provider, wheel, options, settings, made)
        session = open_session(path, made, None, other=True)
    else:
        device = {"device_id": settings["device_id"]} if "device_id" in settings else {}
        listed: list[Listed] = [(provider.key, settings), *((key, device) for key in provider.fallbacks)]
        other = provider.key != CPU
        session = open_session(path, made, [*_there(provider, listed), *([CPU] if other else [])], other)
    if provider.key not in session.get_providers():
        raise MissingError(
            f"ONNX Runtime could not start {provider.key}, so nothing would run on it.",
            "What it wrote on its error output says why: often a library or a driver of another version.",
        )
    return session


def open_session(
    path: Path, options: "SessionOptions", providers: Sequence[Listed] | None = (CPU,), other: bool = False
) -> "InferenceSession":
    """Returns a session, or raises a ModelError with the runtime's message; `other`: not the CPU provider
    alone."""
    import onnxruntime

    listed = None if providers is None else list(providers)
    try:
        # With fallback, the wrapper would try again on the processor alone, and print that to stdout.
        return onnxruntime.InferenceSession(str(path), options, providers=listed, enable_fallback=0)
    except runtime_errors() as error:
        raise ModelError(
            f"ONNX Runtime cannot load '{path.name}': {_reason(error)}",
            "Try the backend onnxruntime-cpu: if that loads it, the provider does not take this model."
            if other
            else "Check that the file is a complete ONNX model: edgeopt simplify MODEL -o OUT",
        ) from error


def check_dimensions(path: Path, options: OrtOptions, backend: str) -> None:
    """Raises a UsageError for an unknown dimension name, which the runtime ignores silently."""
    requested = dimensions(options.free_dimensions, backend)
    if not requested or not path.is_file():
        return
    known = dimension_names(path)
    unknown = [name for name in requested if name not in known]
    if unknown:
        hint = nearest(unknown[0], known) if known else "All dimensions of its inputs have a size."
        raise UsageError(f"The model '{path.name}' has no dimension named '{unknown[0]}'.", hint)


def _reason(error: Exception) -> str:
    """Returns the reason of an error; providers put function signatures first, and the reason in the last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if len(lines) > 1 and "::" in lines[0] else error_text(error)


@cache
def runtime_errors() -> tuple[type[Exception], ...]:
    """Returns ONNX Runtime's exceptions, which share no base class, and those of the conversion of feeds."""
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    own = [e for e in vars(binding).values() if isinstance(e, type) and issubclass(e, Exception)]
    return (*own, LookupError, AttributeError, TypeError, ValueError, RuntimeError)


def _there(provider: Provider, listed: list[Listed]) -> list[Listed]:
    """Removes fallbacks that this build does not have, because the runtime would warn of each."""
    import onnxruntime

    known = onnxruntime.get_available_providers()
    return [each for each in listed if each[0] in known or each[0] == provider.key]


def _add_wheel(
    provider: Provider,
    wheel: ProviderWheel,
    options: OrtOptions,
    settings: dict[str, str],
    made: "SessionOptions",
) -> None:
    ignored = [name for name in provider.not_in_wheel if name in settings]
    if ignored:
        raise UsageError(
            f"{wheel.distribution} on onnxruntime has no option '{ignored[0]}'.",
            f"Leave it out, or uninstall both packages and install {provider.distributions[0]}.",
        )
    wanted = provider.wheel_devices(options)
    failures: tuple[type[Exception], ...] = (*runtime_errors(), ImportError, OSError)
    try:
        register(wheel)
    except failures as error:
        raise _wheel_error(wheel, "load the library of", error) from error
    found = devices(wheel)
    chosen = next((found[name] for name in wanted if name in found), None)
    if chosen is None:
        raise MissingError(
            f"{wheel.distribution} sees no {wanted[0]} here, only: {', '.join(found) or 'no device'}.",
            "Check that the device's driver is installed: edgeopt probe",
        )
    try:
        made.add_provider_for_devices([chosen], {k: v for k, v in settings.items() if k != "device_type"})
    except runtime_errors() as error:
        raise _wheel_error(wheel, "start the provider of", error) from error


def _wheel_error(wheel: ProviderWheel, action: str, error: Exception) -> MissingError:
    import onnxruntime

    return MissingError(
        f"ONNX Runtime {onnxruntime.__version__} cannot {action} {wheel.distribution}: {error_text(error)}",
        f"It needs ONNX Runtime {wheel.min_runtime} or later and all of its files: "
        f"pip install --force-reinstall {wheel.distribution}",
    )


_INPUT, _OUTPUT = 11, 12  # in GraphProto
_NAME, _TYPE = 1, 2  # in ValueInfoProto
_TENSOR = 1  # in TypeProto
_SHAPE = 2  # in TypeProto.Tensor
_DIMENSION = 1  # in TensorShapeProto
_PARAMETER = 2  # in TensorShapeProto.Dimension


def names_with_shape(path: Path) -> frozenset[str]:
    """Returns the names of inputs and outputs with a shape in the model file, be it an empty one.

    ONNX Runtime reports `[]` both for a single number and for a tensor of unknown shape; only the file shows the
    difference.
    """
    with opened(path) as data:
        return frozenset(
            text(data, next(parts(data, value, (_NAME,)), (0, 0)))
            for graph in parts(data, (0, len(data)), (GRAPH,))
            for value in parts(data, graph, (_INPUT, _OUTPUT))
            for kind in parts(data, value, (_TYPE,))
            for tensor in parts(data, kind, (_TENSOR,))
            for _ in parts(data, tensor, (_SHAPE,))
        )


def dimension_names(path: Path) -> tuple[str, ...]:
    """Returns the named dimensions of the inputs, each once."""
    with opened(path) as data:
        names = [
            text(data, name)
            for graph in parts(data, (0, len(data)), (GRAPH,))
            for value in parts(data, graph, (_INPUT,))
            for kind in parts(data, value, (_TYPE,))
            for tensor in parts(data, kind, (_TENSOR,))
            for shape in parts(data, tensor, (_SHAPE,))
            for dimension in parts(data, shape, (_DIMENSION,))
            for name in parts(data, dimension, (_PARAMETER,))
        ]
    return tuple(dict.fromkeys(names))


_ENTRY_POINT = "RegisterCustomOps"


def register_custom_ops(libraries: tuple[str, ...], options: "SessionOptions") -> None:
    """Registers libraries of custom operators; raises a UsageError with the reason for one that does not load."""
    for library in libraries:
        path = Path(library)
        if not path.is_file():
            raise UsageError(f"There is no library of custom operators at '{path}'.", "Check the path.")
        # The runtime has the same message for a file that is not a library and for a bad one, so it is checked
        # first.
        _check(path)
        try:
            options.register_custom_ops_library(str(path.resolve()))
        except Exception as error:
            from onnxruntime.capi import onnxruntime_pybind11_state as binding

            if type(error).__module__ != binding.__name__ and not isinstance(error, RuntimeError):
                raise
            raise UsageError(
                f"ONNX Runtime cannot take the custom operators of '{path.name}': {error_text(error)}",
                "Build the library against the installed version of ONNX Runtime.",
            ) from error


def _check(path: Path) -> None:
    import ctypes

    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise UsageError(
            f"The file '{path.name}' cannot be loaded as a library: {error_text(error)}.",
            "Give a shared library for this processor and system, with all that it needs installed.",
        ) from error
    if not hasattr(library, _ENTRY_POINT):
        raise UsageError(
            f"The library '{path.name}' has no function {_ENTRY_POINT}, so ONNX Runtime finds no operators in it.",
            "Give a library that was built as custom operators of ONNX Runtime.",
        )
