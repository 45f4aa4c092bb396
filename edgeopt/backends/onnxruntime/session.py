"""A model loaded by ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import Array, Feeds, Options, TensorInfo
from edgeopt.backends.feeds import closed, prepare
from edgeopt.backends.onnxruntime.options import OrtOptions, session_options
from edgeopt.backends.onnxruntime.ranks import names_with_shape
from edgeopt.backends.options import read_options
from edgeopt.errors import MissingExtraError, ModelError, said_by

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg, SessionOptions

_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(string)": "str",
    **{f"tensor({n})": n for n in ("float16", "bool", "int8", "int16", "int32", "int64")},
    **{f"tensor({n})": n for n in ("uint8", "uint16", "uint32", "uint64")},
}


class OrtSession:
    """Safe to use from several threads, which then run at the same time."""

    def __init__(
        self, session: "InferenceSession", inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]
    ) -> None:
        import numpy as np

        self.inputs = inputs
        self.outputs = outputs
        self._names = [info.name for info in outputs]
        # Below InferenceSession.run, which spends a quarter of a small call on checks of its own.
        self._run: Any = session._sess.run
        self._errors = _runtime_errors()
        # Strings have no one dtype, so they never match and always take the checked way.
        self._dtypes = [(i.name, None if i.dtype == "str" else np.dtype(i.dtype)) for i in inputs]
        self._scalars = [info.name for info in inputs if info.rank_known and not info.shape]

    def run(self, feeds: Feeds) -> dict[str, Array]:
        try:
            # What the runtime takes without a word and gets wrong: another byte order, a missing input (as if
            # it were optional), any shape where a single number is wanted.
            for name, dtype in self._dtypes:
                if feeds[name].dtype is not dtype:
                    return self._run_checked(feeds)
            for name in self._scalars:
                if feeds[name].shape:
                    return self._run_checked(feeds)
            if len(feeds) != len(self._dtypes):
                return self._run_checked(feeds)
            return dict(zip(self._names, self._run(self._names, feeds, None), strict=True))
        except self._errors:
            return self._run_checked(feeds)

    def close(self) -> None:
        self._run = None

    def _run_checked(self, feeds: Feeds) -> dict[str, Array]:
        if self._run is None:
            raise closed()
        arrays = prepare(self.inputs, feeds)
        try:
            return dict(zip(self._names, self._run(self._names, arrays, None), strict=True))
        except self._errors as error:
            raise ModelError(
                f"ONNX Runtime could not run the model: {said_by(error)}",
                "Check the values and the named dimensions of the data against the model.",
            ) from error


def load_session(path: Path, options: Options, backend: str, providers: Sequence[str]) -> OrtSession:
    chosen = read_options(OrtOptions, options, backend)
    session = open_session(path, session_options_for(chosen, backend), providers)
    known = frozenset[str]()
    if any(not info.shape for info in (*session.get_inputs(), *session.get_outputs())):
        known = names_with_shape(path)
    inputs = tuple(_tensor_info(info, known, path) for info in session.get_inputs())
    outputs = tuple(_tensor_info(info, known, path) for info in session.get_outputs())
    return OrtSession(session, inputs, outputs)


def session_options_for(options: OrtOptions, backend: str) -> "SessionOptions":
    try:
        return session_options(options)
    except ImportError as error:
        raise MissingExtraError("cpu", f"The backend {backend}") from error


def open_session(path: Path, options: "SessionOptions", providers: Sequence[str]) -> "InferenceSession":
    """The session, or a ModelError with the runtime's own first line."""
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(str(path), options, providers=list(providers))
    except _runtime_errors() as error:
        raise ModelError(
            f"ONNX Runtime cannot load '{path.name}': {said_by(error)}",
            "Check that the file is a complete ONNX model: edgeopt simplify MODEL -o OUT",
        ) from error


def _runtime_errors() -> tuple[type[Exception], ...]:
    """ONNX Runtime's exceptions share no base class; the others come from the conversion of feeds."""
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    own = [e for e in vars(binding).values() if isinstance(e, type) and issubclass(e, Exception)]
    return (*own, LookupError, AttributeError, TypeError, ValueError, RuntimeError)


def _tensor_info(info: "NodeArg", known: frozenset[str], path: Path) -> TensorInfo:
    dtype = _DTYPES.get(info.type)
    if dtype is None:
        raise ModelError(
            f"'{info.name}' of the model {path} is a {info.type}, which ONNX Runtime cannot pass to Python.",
            "Convert it inside the model to a tensor of a plain type.",
        )
    return TensorInfo(info.name, dtype, tuple(info.shape), bool(info.shape) or info.name in known)
