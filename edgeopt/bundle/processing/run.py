"""Runs what stands before and after a model."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Available, Feeds, Options, Session, TensorInfo
from edgeopt.bundle.deployment import Part, Processing, Tensor
from edgeopt.bundle.processing.schema import (
    Argmax,
    Dequantize,
    Pictures,
    Scale,
    Sigmoid,
    Softmax,
    Step,
    Threshold,
    TopK,
)
from edgeopt.bundle.runtime.forked import never_free
from edgeopt.data.preparation import prepare_one, together
from edgeopt.errors import DataError, MissingExtraError

# In one thread: threads that wait for work would take the cores from the model. In full precision, which OpenVINO
# would not choose itself on some processors.
_RUNTIMES: tuple[tuple[str, Options], ...] = (
    ("onnxruntime-cpu", {"threads": 1}),
    ("openvino-cpu", {"threads": 1, "precision": "f32"}),
)


def apply(steps: Sequence[Step], tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the tensors after all steps, run in their order; tensors that no step takes are unchanged."""
    held = dict(tensors)
    for step in steps:
        if step.on not in held:
            raise DataError(f"A step reads '{step.on}', which does not exist.", f"There are: {', '.join(held)}.")
        held |= _done(step, held.pop(step.on))
    return held


def described(step: Step, tensor: TensorInfo) -> tuple[TensorInfo, ...]:
    """Returns the outputs of a step; raises ValueError with a sentence if the step cannot take the tensor."""
    if tensor.dtype == "str":
        raise ValueError("it holds strings")
    shape, dtype, known = tensor.shape, tensor.dtype, tensor.rank_known
    if isinstance(step, Softmax | Argmax | TopK) and known and not -len(shape) <= step.axis < len(shape):
        raise ValueError(f"it has no axis {step.axis}")
    if isinstance(step, TopK):
        if known:
            size = shape[step.axis]
            if isinstance(size, int) and size < step.k:
                raise ValueError(f"its axis {step.axis} has {size} values, fewer than {step.k}")
            shape = tuple(step.k if k == step.axis % len(shape) else dim for k, dim in enumerate(shape))
        places = TensorInfo(step.gives_places, "int64", shape, known)
        return TensorInfo(step.gives, dtype, shape, known), places
    if isinstance(step, Argmax):
        rest = tuple(dim for k, dim in enumerate(shape) if k != step.axis % max(1, len(shape)))
        return (TensorInfo(step.gives, "int64", rest, known),)
    if isinstance(step, Threshold):
        dtype = "uint8"
    elif isinstance(step, Softmax | Sigmoid | Scale | Dequantize):
        dtype = "float64" if dtype == "float64" else "float32"
    return (TensorInfo(step.gives, dtype, shape, known),)


def _done(step: Step, values: Array) -> dict[str, Array]:
    if isinstance(step, TopK):
        # A stable order of the negated: of equal values the first comes first.
        order = np.argsort(-_floats(values), axis=step.axis, kind="stable")
        places = np.take(order, range(step.k), axis=step.axis)
        return {step.gives: np.take_along_axis(values, places, step.axis), step.gives_places: places}
    return {step.gives: _one(step, values)}


def _one(step: Step, values: Array) -> Array:
    if isinstance(step, Softmax):
        floats = _floats(values)
        powers = np.exp(floats - floats.max(axis=step.axis, keepdims=True))
        return np.asarray(powers / powers.sum(axis=step.axis, keepdims=True))
    if isinstance(step, Sigmoid):
        # By the hyperbolic tangent, which no value is too large for.
        floats = _floats(values)
        return np.asarray(0.5 * np.tanh(0.5 * floats) + 0.5, floats.dtype)
    if isinstance(step, Argmax):
        return np.asarray(values.argmax(axis=step.axis), np.int64)
    if isinstance(step, Threshold):
        return np.asarray(values > step.above, np.uint8)
    if isinstance(step, Scale):
        floats = _floats(values)
        return np.asarray(floats * step.factor + step.offset, floats.dtype)
    if isinstance(step, Dequantize):
        floats = _floats(values)
        return np.asarray((floats - step.zero_point) * step.scale, floats.dtype)
    return values


def _floats(values: Array) -> Array:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)


class Processor:
    """Runner of a model's pre- and postprocessing; ONNX files are loaded when they are first run."""

    def __init__(self, processing: Processing, folder: Path, inputs: list[Tensor]) -> None:
        """`folder`: the bundle's; `inputs`: of the model."""
        self._pre = processing.pre
        self._post = processing.post
        self._folder = folder
        self._inputs = inputs
        self._sessions: dict[str, Session] = {}

    def before(self, raw: Feeds) -> dict[str, Array]:
        """Returns the model's inputs from a user's raw sample; raises DataError if its names do not fit."""
        if self._pre is None:
            return dict(raw)
        made = {each.name for each in self._pre.outputs}
        handed_on = [each.name for each in self._inputs if each.name not in made]
        expected = dict.fromkeys((*(each.name for each in self._pre.inputs), *handed_on))
        odd = next((name for name in (*expected, *raw) if name not in expected or name not in raw), None)
        if odd is not None:
            what = f"Missing input '{odd}'" if odd in expected else f"Unknown input '{odd}'"
            raise DataError(
                f"{what} of the preprocessing; it takes: {', '.join(expected)}.",
                "Session.processing has the inputs of the preprocessing; Session.run takes those of the model.",
            )
        return {name: np.asarray(raw[name]) for name in handed_on} | self.pre(raw)

    def pre(self, raw: Feeds) -> dict[str, Array]:
        """Returns the outputs of the preprocessing alone."""
        part = self._pre
        if part is None:
            return {}
        if part.pictures is not None:
            return {part.outputs[0].name: from_pictures(np.asarray(raw[part.inputs[0].name]), part)}
        return self._run(part, raw)

    def after(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the final results from the model's outputs."""
        part = self._post
        if part is None:
            return dict(outputs)
        if part.is_file:
            taken = {each.name for each in part.inputs}
            return {n: a for n, a in outputs.items() if n not in taken} | self._run(part, outputs)
        return apply(part.steps, outputs)

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def after_fork(self) -> None:
        """Loads them again in this process, when they are run."""
        for session in self._sessions.values():
            never_free(session)
        self._sessions = {}

    def _run(self, part: Part, values: Mapping[str, Array]) -> dict[str, Array]:
        session = self._sessions.get(part.file)
        if session is None:
            session = self._sessions[part.file] = opened(self._folder / part.file)
        return session.run({each.name: values[each.name] for each in part.inputs})


def opened(model: Path) -> Session:
    """An ONNX file of processing, in the first runtime that is here."""
    for name, options in _RUNTIMES:
        backend = backend_named(name)
        if isinstance(backend.available(), Available):
            return backend.load(model, options)
    raise MissingExtraError("cpu", "Processing as ONNX")


def from_pictures(pixels: Array, part: Part) -> Array:
    """One picture or several, as bytes with the channels last or none."""
    name, rank, pictures = part.inputs[0].name, len(part.outputs[0].shape), part.pictures or Pictures()
    one = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[-1] in {1, 3, 4})
    if pixels.dtype != np.uint8 or pixels.ndim not in {2, 3, 4} or not pixels.size:
        raise DataError(
            f"'{name}' must be a picture as bytes (uint8) of height, width and channels, or several of them; "
            f"it is {pixels.dtype.name} {list(pixels.shape)}.",
            "Session.run takes prepared pictures.",
        )
    listed = [pixels] if one else list(pixels)
    prepared = together(
        [(prepare_one(each, pictures, f"'{name}'"), f"picture {k}") for k, each in enumerate(listed)]
    )
    return prepared[0] if prepared.ndim == rank + 1 and len(prepared) == 1 else prepared
