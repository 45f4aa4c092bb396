"""Quantization of a whole model by NNCF, for OpenVINO, and by ONNX Runtime's own tools."""

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.openvino.model import read_model, write_model
from edgeopt.errors import ModelError, error_text
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.quant.openvino_defects import avoid_defects
from edgeopt.workspace import temporary_folder

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto
    from openvino import Model


_GROUP, _BLOCK = 32, 32
_SMALLEST_TABLE = 1 << 18
"""Values of a table below which eight bits save too little memory."""
_MAX_FILE_BYTES = 1 << 30
_EIGHT_BIT_INPUTS = 4  # accuracy level of MatMulNBits: activations are rounded to eight bits by blocks
_QUANTIZED, _COMPRESSED = "FakeQuantize", {"i8", "u8", "i4", "u4"}


def quantize_by_nncf(
    base: Path,
    out: Path,
    samples: Sequence[Feeds],
    *,
    transformer: bool,
    full_ranges: bool = True,
    reduce_range: bool | None = None,
    unpacked: Path | None = None,
) -> LedgerEntry:
    """Quantizes weights and activations to eight bits by NNCF, with SmoothQuant if `transformer`.

    `unpacked` is the file for the model with quantizers over float weights, which a repair needs.
    """
    from openvino._offline_transformations import compress_quantize_weights_transformation

    model = read_model(base)
    count = len(model.get_ops())
    made = quantized_by_nncf(
        model, samples, transformer=transformer, full_ranges=full_ranges, reduce_range=reduce_range
    )
    changes = avoid_defects(made)
    if unpacked is not None:
        write_model(made, unpacked)
    compress_quantize_weights_transformation(made)
    entry = write_quantized(made, out, "nncf-transformer" if transformer else "nncf-int8", count)
    return msgspec.structs.replace(entry, applied=(*entry.applied, *changes))


def quantized_by_nncf(
    model: "Model",
    samples: Sequence[Feeds],
    *,
    transformer: bool,
    full_ranges: bool = True,
    reduce_range: bool | None = None,
) -> "Model":
    """Returns the model with quantizers, which NNCF adds to `model` itself; weights are floats behind quantizers.

    With `full_ranges`, ranges include every sample; NNCF's default is the mean of each sample's range, which clips
    the loudest samples. With `reduce_range`, weights of convolutions and matrix products use 7 of 8 bits:
    a processor that adds pairs of products in 16 bits would saturate. None leaves NNCF's default, which protects
    the first layer alone.
    """
    import nncf
    from nncf.quantization.advanced_parameters import OverflowFix
    from nncf.quantization.range_estimator import RangeEstimatorParametersSet

    _check_float(model)
    overflow_fix = None
    if reduce_range is not None:
        overflow_fix = OverflowFix.ENABLE if reduce_range else OverflowFix.DISABLE
    with _quiet():
        return nncf.quantize(
            model,
            nncf.Dataset([dict(each) for each in samples]),
            subset_size=len(samples),
            preset=nncf.QuantizationPreset.MIXED,
            model_type=nncf.ModelType.TRANSFORMER if transformer else None,
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                overflow_fix=overflow_fix,
                activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX if full_ranges else None,
                backend_params={"compress_weights": False},
            ),
        )


def compress_weights(base: Path, out: Path, *, four_bits: bool = False) -> LedgerEntry:
    """Quantizes the weights of matrix products to eight bits, or four, symmetric; activations stay float.

    Of four bits, NNCF leaves embeddings and the last layer in eight.
    """
    import nncf

    model = read_model(base)
    _check_float(model)
    count = len(model.get_ops())
    with _quiet():
        if four_bits:
            # Of layers that the group size does not divide, the size is reduced, or they get eight bits.
            fallback = nncf.AdvancedCompressionParameters(
                group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST
            )
            made = nncf.compress_weights(
                model, mode=nncf.CompressWeightsMode.INT4_SYM, group_size=_GROUP, advanced_parameters=fallback
            )
        else:
            made = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    return write_quantized(made, out, "nncf-weights4" if four_bits else "nncf-weights", count)


def _check_float(model: "Model") -> None:
    if any(op.get_type_name() == _QUANTIZED for op in model.get_ops()):
        raise ModelError("The model is already quantized.", "Give the float model.")


def write_quantized(model: "Model", out: Path, name: str, nodes_before: int) -> LedgerEntry:
    """Writes a model that NNCF quantized; raises a ModelError if NNCF quantized nothing."""
    ops = model.get_ordered_ops()
    readers = [
        reader.get_node().get_friendly_name()
        for op in ops
        if op.get_type_name() == _QUANTIZED
        or (op.get_type_name() == "Constant" and op.get_output_element_type(0).get_type_name() in _COMPRESSED)
        for reader in op.output(0).get_target_inputs()
    ]
    if not readers:
        raise ModelError("NNCF found nothing to quantize in this model.")
    write_model(model, out)
    known = {"nncf-weights": "read weights in eight bits", "nncf-weights4": "read weights in four or eight bits"}
    what = known.get(name, "computed in eight bits")
    nodes = tuple(dict.fromkeys(readers))
    return LedgerEntry(name, applied=(Change(what, nodes),), nodes_before=nodes_before, nodes_after=len(ops))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Redirects NNCF's progress from stdout, which is for answers, and raises its errors as a ModelError."""
    import logging

    import nncf

    # NNCF's own function for this also changes the handlers, which may be those of the whole application.
    logging.getLogger(nncf.__name__).setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (nncf.InternalError, nncf.ValidationError, nncf.UnsupportedModelError, RuntimeError) as error:
        raise ModelError(f"NNCF cannot quantize the model: {error_text(error)}") from error


def quantize_by_onnxruntime(base: Path, out: Path, samples: Sequence[Feeds], *, reduce_range: bool) -> LedgerEntry:
    """Quantizes weights and activations to eight bits with calibrated ranges, as QDQ pairs."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    with _prepared(base) as prepared:
        quantize_static(
            str(prepared),
            str(out),
            _Reader(samples),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    return _entry("ort-int8", base, out)


def quantize_dynamic(base: Path, out: Path, *, reduce_range: bool) -> LedgerEntry:
    """Quantizes weights to eight bits and activations at run time: MatMul, Attention, LSTM; also in branches."""
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization import quantize_dynamic as quantize

    with _prepared(base) as prepared:
        quantize(
            str(prepared),
            str(out),
            per_channel=True,
            reduce_range=reduce_range,
            weight_type=QuantType.QInt8,
            # ONNX Runtime's dynamically quantized convolutions are slower than float.
            op_types_to_quantize=["MatMul", "Attention", "LSTM"],
            extra_options={"EnableSubgraph": True},
        )
    return _entry("ort-dynamic", base, out)


def quantize_weights(base: Path, out: Path, bits: int) -> LedgerEntry:
    """Stores the weights of matrix products in 8 or 4 bits by blocks; the kernels round activations to 8 bits."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    model = onnx.load(base)
    before = len(model.graph.node)
    try:
        with _root_advice_dropped(), contextlib.redirect_stdout(sys.stderr):
            quantizer = MatMulNBitsQuantizer(
                model, bits=bits, block_size=_BLOCK, is_symmetric=True, accuracy_level=_EIGHT_BIT_INPUTS
            )
            quantizer.process()
            made = quantizer.model
            tables = _tables_in_eight_bits(made.model.graph)
            made.save_model_to_file(str(out), made.model.ByteSize() > _MAX_FILE_BYTES)
    except Exception as error:  # it raises whatever its parts raise
        raise ModelError(f"ONNX Runtime's tools cannot quantize the model: {error_text(error)}") from error
    nodes = made.model.graph.node
    changed = tuple(node.name for node in nodes if node.op_type == "MatMulNBits")
    if not changed:
        raise ModelError("ONNX Runtime's tools found no product with constant weights in this model.")
    applied = [Change(f"stored weights in {bits} bits by blocks", changed)]
    if tables:
        applied.append(Change("stored embeddings in 8 bits by blocks", tables))
    return LedgerEntry(f"ort-weights{bits}", applied=tuple(applied), nodes_before=before, nodes_after=len(nodes))


def _tables_in_eight_bits(graph: "GraphProto") -> tuple[str, ...]:
    """Quantizes the large tables that Gather reads rows of; returns the names of these nodes.

    The library itself only knows four bits, which are too few for them.
    """
    from onnx import numpy_helper

    weights = {each.name: each for each in graph.initializer}
    made = {node.output[0]: node for node in graph.node}
    changed: list[str] = []
    for node in graph.node:
        axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
        if node.op_type != "Gather" or node.domain or axis:
            continue
        values = _table(node.input[0], weights, made)
        if values is None or values.size < _SMALLEST_TABLE or values.shape[1] % _BLOCK:
            continue
        blocks = values.reshape(len(values), -1, _BLOCK)
        scales = np.abs(blocks).max(-1) / 127
        levels = np.round(blocks / np.where(scales, scales, 1)[..., None]) + 128  # 128 is the default zero point
        stored = {
            f"{node.output[0]}.levels": levels.astype(np.uint8).reshape(values.shape),
            f"{node.output[0]}.scales": scales.astype(np.float32),
        }
        graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
        table, scale = stored
        _read_blocks(node, [table, node.input[1], scale])
        changed.append(node.name or node.output[0])
    _drop_unread(graph)
    return tuple(changed)


def _table(name: str, weights: "Mapping[str, TensorProto]", made: "Mapping[str, NodeProto]") -> Array | None:
    """Returns a constant matrix of float32 values, also if it is transposed first, as a tied head is."""
    from onnx import TensorProto, numpy_helper

    node = made.get(name)
    is_turned = node is not None and node.op_type == "Transpose"
    found = weights.get(node.input[0] if node is not None and is_turned else name)
    if found is None or found.data_type != TensorProto.FLOAT or len(found.dims) != 2:
        return None
    values: Array = numpy_helper.to_array(found)
    if node is None:
        return values
    order = [list(each.ints) for each in node.attribute if each.name == "perm"]
    return values.T if order in ([], [[1, 0]]) else values


def _read_blocks(node: "NodeProto", inputs: Sequence[str]) -> None:
    from onnx import helper

    settings = {"gather_axis": 0, "quantize_axis": 1, "block_size": _BLOCK, "bits": 8}
    blocked = helper.make_node(
        "GatherBlockQuantized", inputs, list(node.output), domain="com.microsoft", **settings
    )
    blocked.name = node.name
    node.CopyFrom(blocked)


def _drop_unread(graph: "GraphProto") -> None:
    """Removes a Transpose and weights that nothing reads any more."""
    for kind in (graph.node, graph.initializer):
        read = {name for node in graph.node for name in node.input} | {each.name for each in graph.output}
        for each in [*kind]:
            name = each.output[0] if kind is graph.node else each.name
            if name not in read and (kind is graph.initializer or each.op_type == "Transpose"):
                kind.remove(each)


class _Reader:
    """Reader of samples for `onnxruntime.quantization`."""

    def __init__(self, samples: Sequence[Feeds]) -> None:
        self._samples = samples
        self.rewind()

    def get_next(self) -> Feeds | None:
        return next(self._left, None)

    def rewind(self) -> None:
        self._left = iter([dict(each) for each in self._samples])


@contextlib.contextmanager
def _prepared(base: Path) -> Iterator[Path]:
    """Yields the model in an opset that the library quantizes by channel, with inferred shapes."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from edgeopt.graph.model import load, save
    from edgeopt.quant.write import raised

    with temporary_folder("whole") as folder:
        place = Path(folder)
        save(raised(load(base).ir), place / "raised.onnx")
        try:
            with _root_advice_dropped(), contextlib.redirect_stdout(sys.stderr):
                quant_pre_process(
                    str(place / "raised.onnx"), str(place / "prepared.onnx"), skip_symbolic_shape=True
                )
                yield place / "prepared.onnx"
        except Exception as error:  # it raises whatever its parts raise
            raise ModelError(f"ONNX Runtime's tools cannot quantize the model: {error_text(error)}") from error


@contextlib.contextmanager
def _root_advice_dropped() -> Iterator[None]:
    """Drops this thread's warnings from the root logger, which ONNX Runtime's tools use.

    The level of that logger belongs to the whole process: if two threads changed and restored it, the later one
    could silence it for good.
    """
    thread, root = threading.get_ident(), logging.getLogger()

    def passes(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.levelno >= logging.ERROR

    root.addFilter(passes)
    try:
        yield
    finally:
        root.removeFilter(passes)


def _entry(name: str, base: Path, out: Path) -> LedgerEntry:
    from edgeopt.graph.model import load

    before, after = list(load(base).ir.graph), list(load(out).ir.graph.all_nodes())
    known = {"DynamicQuantizeLSTM", "MatMulInteger", "ConvInteger", "DynamicQuantizeLinear", "QuantizeLinear"}
    changed = tuple(node.name or "" for node in after if node.op_type in known)
    if not changed:
        raise ModelError("ONNX Runtime's tools found nothing to quantize in this model.")
    return LedgerEntry(
        name,
        applied=(Change("computed in eight bits", changed),),
        nodes_before=len(before),
        nodes_after=len(after),
    )
