"""The models and the inputs of a proof."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from edgeopt.errors import VerificationError
from edgeopt.graph.masks import STEP, is_mask
from edgeopt.graph.model import digest_of, save
from edgeopt.measure.exactness.runtimes import Feeds
from edgeopt.platform.files import rename_path

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import DTypeLike

    from edgeopt.backends.base import TensorInfo
    from edgeopt.graph.model import Model
    from edgeopt.profiles.schema import Data

# protobuf classes carry no types; these are onnx's ModelProto, NodeProto and ValueInfoProto.
Proto = Any
KINDS = ("sequence_type", "map_type", "optional_type")
CANDIDATE = "candidate.onnx"
SAMPLES = 16
MADE_UP = 4
"""Number of ordinary samples if the user gave none; regimes are made from the first."""


def has_other_outputs(path: Path) -> bool:
    """Whether an output is not a tensor."""
    import onnx

    return any(map(_is_other, onnx.load(path, load_external_data=False).graph.output))


def write_with_tensors(source: Path, target: Path) -> None:
    """Writes a copy that returns tensors: length, elements in a row and their sizes of a sequence; values of maps.

    It runs wherever the source does: a sequence may be empty, and its elements may have any shapes.
    """
    import onnx

    proto = onnx.load(source)
    makers = {name: node for node in proto.graph.node for name in node.output}
    outputs = list(proto.graph.output)
    del proto.graph.output[:]
    for value in outputs:
        nodes, infos = _tensors(value, makers.get(value.name)) if _is_other(value) else ((), (value,))
        proto.graph.node.extend(nodes)
        proto.graph.output.extend(infos)
    onnx.save(proto, target)


def _is_other(value: Proto) -> bool:
    return value.type.WhichOneof("value") in KINDS


def _tensors(value: Proto, maker: Proto | None) -> tuple[tuple[Proto, ...], tuple[Proto, ...]]:
    """Returns nodes that make tensors of a sequence or map, and these tensors' types."""
    from onnx import TensorProto, helper, numpy_helper

    if maker is not None and maker.op_type == "ZipMap":
        # ZipMap writes a table as maps; its attributes name the columns.
        made = f"{value.name}.values"
        copied = helper.make_node("Identity", [maker.input[0]], [made])
        return (copied,), (helper.make_tensor_value_info(made, TensorProto.FLOAT, None),)
    kind = value.type.sequence_type.elem_type.tensor_type.elem_type

    def name(part: str) -> str:
        return f"{value.name}.{part}"

    def node(operator: str, inputs: str, output: str, **attributes: Proto | int) -> Proto:
        return helper.make_node(operator, [name(one) for one in inputs.split()], [name(output)], **attributes)

    def port(part: str, type_: int, shape: list[int] | None = None) -> Proto:
        return helper.make_tensor_value_info(name(part), type_, shape)

    def nothing(output: str, dtype: "DTypeLike") -> Proto:
        return node("Constant", "", output, value=numpy_helper.from_array(np.zeros(0, dtype)))

    flat = numpy_helper.from_array(np.array([-1], np.int64))
    element = helper.make_node("SequenceAt", [value.name, name("place")], [name("element")])
    body = helper.make_graph(
        [
            element,
            node("Shape", "element", "size"),
            node("Constant", "", "flat", value=flat),
            node("Reshape", "element flat", "row"),
            node("Concat", "rows row", "more-rows", axis=0),
            node("Concat", "known size", "more-known", axis=0),
            node("Identity", "going", "goes-on"),
        ],
        "collect",
        [
            port("place", TensorProto.INT64, []),
            port("going", TensorProto.BOOL, []),
            port("rows", kind),
            port("known", TensorProto.INT64),
        ],
        [port("goes-on", TensorProto.BOOL, []), port("more-rows", kind), port("more-known", TensorProto.INT64)],
    )
    count = helper.make_node("SequenceLength", [value.name], [name("length")])
    first = (nothing("no-rows", helper.tensor_dtype_to_np_dtype(kind)), nothing("no-sizes", np.int64))
    loop = helper.make_node(
        "Loop",
        [name("length"), "", name("no-rows"), name("no-sizes")],
        [name("elements"), name("sizes")],
        body=body,
    )
    infos = port("length", TensorProto.INT64, []), port("elements", kind), port("sizes", TensorProto.INT64)
    return (count, *first, loop), infos


def written(folder: Path, name: str, make: "Callable[[], ir.Model]", *, plain: bool) -> Path:
    """Writes a model made from the source, unless the file exists, and returns its path."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        save(make(), path)
        if plain:
            write_with_tensors(path, path)
    return path


def saved(folder: Path, model_ir: "ir.Model", *, plain: bool) -> Path:
    """Writes the model into a folder named by its digest, so that a path never means another model."""
    candidates = folder / "candidates"
    candidates.mkdir(exist_ok=True)
    saving = Path(tempfile.mkdtemp(dir=candidates))
    save(model_ir, saving / CANDIDATE)
    if plain:
        write_with_tensors(saving / CANDIDATE, saving / CANDIDATE)
    # Weights in a file of their own have their digest in its name, which the model's file holds.
    place = candidates / digest_of((saving / CANDIDATE,))
    for old in set(candidates.iterdir()) - {place, saving}:
        shutil.rmtree(old)  # a bisection of a large model would fill the disk
    if place.exists():
        shutil.rmtree(saving)
    else:
        rename_path(saving, place)
    return place / CANDIDATE


def taken_inputs(
    model: "Model", found: "tuple[TensorInfo, ...]", shapes: "Mapping[str, tuple[int, ...]]"
) -> "tuple[TensorInfo, ...]":
    """Returns the runtime's inputs without the weights, with the shapes that the user fixes."""
    weights = set(model.ir.graph.initializers)
    return tuple(
        msgspec.structs.replace(info, shape=shapes[info.name]) if info.name in shapes else info
        for info in found
        if info.name not in weights
    )


def ordinary_samples(
    model: "Model", inputs: "tuple[TensorInfo, ...]", data: Path | None, pictures: "Data | None" = None
) -> Feeds:
    from edgeopt.data.read import load_data
    from edgeopt.graph.feeds import generate_feeds

    if data is None:
        return generate_feeds(inputs, model.ir, MADE_UP, seed=0)
    samples = load_data(data, inputs, pictures)
    return [samples.feeds(index) for index in range(min(len(samples), SAMPLES))]


def check_steady(model: "Model") -> None:
    """Raises VerificationError for random operators without a seed, whose numbers change with any rewrite."""
    from edgeopt.graph.nodes import is_random, label, nodes_of

    loose = [label(node) for node in nodes_of(model.ir) if is_random(node) and "seed" not in node.attributes]
    if loose:
        raise VerificationError(
            f"The source model draws random numbers in {loose[0]}, so its results cannot be proved.",
            "Add --no-verify to write the result without a proof.",
        )


Sample = dict[str, Any]


def padded_cases(model_ir: "ir.Model", sample: Sample) -> list[Sample]:
    """Returns cases made from one sample; none if the model has no mask."""
    masks = [name for name, array in sample.items() if is_mask(name, np.ndim(array))]
    if len(masks) != 1 or 0 in np.shape(sample[masks[0]]):
        return []
    cases = [case for mask in _masks(sample[masks[0]]) for case in _filled({**sample, masks[0]: mask}, masks[0])]
    if _takes_rows(model_ir):
        cases += [_beside(cases[0], other, sample) for other in cases[1:4]]
    return cases


def _masks(mask: "np.ndarray[Any, Any]") -> "Iterator[np.ndarray[Any, Any]]":
    """Yields masks of 1, STEP, STEP + 1, half, all but one and all tokens, then with gaps and an empty start."""
    length = mask.shape[1]
    place = np.arange(length)
    for kept in dict.fromkeys(
        min(max(n, 1), length) for n in (1, STEP, STEP + 1, length // 2, length - 1, length)
    ):
        yield np.broadcast_to(place < kept, mask.shape).astype(mask.dtype)
    half = place < max(1, length // 2)
    yield np.broadcast_to(half & ((place % 3 != 1) | (place == 0)), mask.shape).astype(mask.dtype)
    yield np.broadcast_to(half & ((place >= length // 4) | (length < STEP)), mask.shape).astype(mask.dtype)


def _filled(sample: Sample, mask: str) -> Iterator[Sample]:
    """Yields the sample, and the same with other values in the positions that the mask excludes."""
    yield sample
    left_out = ~sample[mask].astype(bool)
    random = np.random.default_rng(0)
    other = {
        name: np.where(left_out, random.permuted(array, axis=1), array).astype(array.dtype)
        for name, array in sample.items()
        if name != mask and np.shape(array) == left_out.shape
    }
    if left_out.any() and other:
        yield {**sample, **other}


def _takes_rows(model_ir: "ir.Model") -> bool:
    """Whether every input has an open first dimension."""
    shapes = [value.shape for value in model_ir.graph.inputs if not value.is_initializer()]
    return all(shape is not None and len(shape) > 0 and not isinstance(shape[0], int) for shape in shapes)


def _beside(first: Sample, second: Sample, empty: Sample) -> Sample:
    """Returns three rows: two lengths, and one that is all padding."""
    names = [name for name in first if is_mask(name, np.ndim(first[name]))]
    rows = [first, second, {**empty, **{name: np.zeros_like(empty[name]) for name in names}}]
    return {name: np.concatenate([row[name] for row in rows]) for name in first}
