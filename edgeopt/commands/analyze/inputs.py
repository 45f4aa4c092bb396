"""Inputs for a run of the analyzed model: one sample of the user's data, or a generated one."""

from collections.abc import Mapping
from pathlib import Path

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.data.read import load_data
from edgeopt.errors import ModelError, UsageError
from edgeopt.graph.analysis import TensorFacts
from edgeopt.profiles.schema import Data

Shapes = Mapping[str, tuple[int, ...]]


def feeds_for(
    path: Path,
    data: Path | None,
    shapes: Shapes,
    inputs: tuple[TensorFacts, ...] = (),
    pictures: Data | None = None,
) -> dict[str, Array]:
    """Returns one run's inputs, with `inputs` for other models than ONNX; raises ModelError if it cannot."""
    from edgeopt.graph.feeds import generate_feeds

    graph = None
    if path.suffix != ".xml":
        from edgeopt.graph.analysis.tensors import tensor_row
        from edgeopt.graph.model import load

        # The graph says which integers make sense.
        graph = load(path).ir
        weights = graph.graph.initializers
        inputs = tuple(tensor_row(value) for value in graph.graph.inputs if value.name not in weights)
    described = infos(inputs, shapes)
    if data is not None:
        return load_data(data, described, pictures).feeds(0)
    return generate_feeds(described, graph, 1, seed=0)[0]


def shapes_of(data: Path, inputs: tuple[TensorFacts, ...], pictures: Data | None) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the inputs in the user's data; raises DataError if they do not fit."""
    samples = load_data(data, infos(inputs, {}), pictures)
    return {name: tuple(shape) for name, shape in samples.shapes().items()}


def infos(inputs: tuple[TensorFacts, ...], shapes: Shapes) -> tuple[TensorInfo, ...]:
    """Returns the inputs as backends describe them, with the shapes that the user fixed."""
    found = []
    for tensor in inputs:
        shape = shapes.get(tensor.name, tensor.shape)
        if tensor.dtype is None or tensor.dtype in {"sequence", "optional", "map"} or shape is None:
            raise ModelError(
                f"Values for the input '{tensor.name}' cannot be generated: the model does not declare its "
                "type or shape.",
                "Pass samples with --data.",
            )
        found.append(TensorInfo(tensor.name, tensor.dtype, shape))
    return tuple(found)


def check_shapes(shapes: Shapes, inputs: tuple[TensorFacts, ...]) -> None:
    """Raises UsageError if a shape that the user fixed is impossible for the input."""
    by_name = {tensor.name: tensor for tensor in inputs}
    for name, fixed in shapes.items():
        if name not in by_name:
            names = ", ".join(by_name) or "none"
            raise UsageError(
                f"The model has no input '{name}'; its inputs are: {names}.", "See --shape in --help."
            )
        shape = by_name[name].shape
        if shape is None:
            continue
        declared = "x".join("?" if d is None else str(d) for d in shape)
        if len(shape) != len(fixed) or any(
            isinstance(d, int) and d != size for d, size in zip(shape, fixed, strict=False)
        ):
            raise UsageError(
                f"The input '{name}' is {declared}, so it cannot be {'x'.join(map(str, fixed))}.",
                "Only open dimensions can be fixed.",
            )
