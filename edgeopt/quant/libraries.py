"""NNCF's own quantization of a whole model, for OpenVINO."""

import contextlib
import logging
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.openvino.model import core, port_name, read_model, write_model
from edgeopt.data.judging.goals import TAIL_DB
from edgeopt.errors import ModelError, said_by
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.graph.weak_samples import tail_of

if TYPE_CHECKING:
    from openvino import CompiledModel, Model, Node


_QUANTIZED, _COMPRESSED = "FakeQuantize", {"i8", "u8", "i4", "u4"}


def quantize_by_nncf(base: Path, out: Path, samples: Sequence[Feeds], *, transformer: bool) -> LedgerEntry:
    """Weights and activations in eight bits; `transformer`: as NNCF does for these, with SmoothQuant."""
    import nncf

    model = read_model(base)
    _check_float(model)
    count = len(model.get_ops())
    with _quiet():
        made = nncf.quantize(
            model,
            nncf.Dataset([dict(each) for each in samples]),
            subset_size=len(samples),
            preset=nncf.QuantizationPreset.MIXED,
            model_type=nncf.ModelType.TRANSFORMER if transformer else None,
        )
    return _written(made, out, "nncf-transformer" if transformer else "nncf-int8", count)


def compress_weights(base: Path, out: Path) -> LedgerEntry:
    """Weights of matrix products in eight bits, symmetric; activations stay as they are."""
    import nncf

    model = read_model(base)
    _check_float(model)
    count = len(model.get_ops())
    with _quiet():
        made = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_SYM)
    return _written(made, out, "nncf-weights", count)


def _check_float(model: "Model") -> None:
    if any(op.get_type_name() == _QUANTIZED for op in model.get_ops()):
        raise ModelError("The model is already quantized.", "Give the float model.")


def _written(model: "Model", out: Path, name: str, nodes_before: int) -> LedgerEntry:
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
    what = "read weights in eight bits" if name == "nncf-weights" else "computed in eight bits"
    nodes = tuple(dict.fromkeys(readers))
    return LedgerEntry(name, applied=(Change(what, nodes),), nodes_before=nodes_before, nodes_after=len(ops))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """NNCF draws its progress on stdout, where answers go, and says how it fails in its own classes."""
    import logging

    import nncf

    nncf.set_log_level(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (nncf.InternalError, nncf.ValidationError, nncf.UnsupportedModelError, RuntimeError) as error:
        raise ModelError(f"NNCF cannot quantize the model: {said_by(error)}") from error


def quantize_by_onnxruntime(base: Path, out: Path, samples: Sequence[Feeds], *, reduce_range: bool) -> LedgerEntry:
    """Weights and activations in eight bits, calibrated, in the form that the runtime fuses (QDQ)."""
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
    """Weights in eight bits, activations as they come: matrix products and recurrent layers, in branches too."""
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization import quantize_dynamic as quantize

    with _prepared(base) as prepared:
        quantize(
            str(prepared),
            str(out),
            per_channel=True,
            reduce_range=reduce_range,
            weight_type=QuantType.QInt8,
            # Its convolutions of this kind are slower than floats.
            op_types_to_quantize=["MatMul", "Attention", "LSTM"],
            extra_options={"EnableSubgraph": True},
        )
    return _entry("ort-dynamic", base, out)


class _Reader:
    """The samples as `onnxruntime.quantization` takes them."""

    def __init__(self, samples: Sequence[Feeds]) -> None:
        self._samples = samples
        self.rewind()

    def get_next(self) -> Feeds | None:
        return next(self._left, None)

    def rewind(self) -> None:
        self._left = iter([dict(each) for each in self._samples])


@contextlib.contextmanager
def _prepared(base: Path) -> Iterator[Path]:
    """The model of an opset that the library quantizes by channel, with its shapes inferred."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from edgeopt.graph.model import load, save
    from edgeopt.quant.write import raised

    with tempfile.TemporaryDirectory(prefix="edgeopt-whole-") as folder:
        place = Path(folder)
        save(raised(load(base).ir), place / "raised.onnx")
        root = logging.getLogger()
        level = root.level
        root.setLevel(logging.ERROR)  # its tools advise by warnings of the root logger
        try:
            with contextlib.redirect_stdout(sys.stderr):
                quant_pre_process(
                    str(place / "raised.onnx"), str(place / "prepared.onnx"), skip_symbolic_shape=True
                )
                yield place / "prepared.onnx"
        except Exception as error:  # it raises whatever its parts raise
            raise ModelError(f"ONNX Runtime's tools cannot quantize the model: {said_by(error)}") from error
        finally:
            root.setLevel(level)


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


NAME = "bf16-mixed"
# OpenVINO keeps a node with this mark in float32 whatever the precision option. It is undocumented, and counts
# once the model was written and read: then it has become an attribute of OpenVINO's own.
PRECISE = "precise_0"
GROUPS = 12
_PARTS = 4
"""Of each group that must stay in float32, once those are found."""
_LEEWAY_DB = 3.0
"""Other samples are a little worse."""
_TAIL_LEEWAY_DB = 2.0
_COSTS_SHARE = 0.75
"""Of the time, what finding out may take of each group alone."""
_FAR_DB = 30.0
MOST_SAMPLES = 16
_NEVER = frozenset({"Parameter", "Constant", "Result"})


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a model with some groups in float32 reached."""

    noise: float
    """Noise over signal in the worst output, over all samples or the worst tenth if that is worse."""

    @property
    def snr_db(self) -> float:
        return -10 * math.log10(max(self.noise, 1e-20)) if math.isfinite(self.noise) else -math.inf


def mix(base: Path, out: Path, samples: Sequence[Feeds], floor_db: float, limit_s: float) -> LedgerEntry:
    """Writes the model with the nodes marked that need float32.

    Raises ModelError where bf16 needs no help, or marks do not help enough.
    """
    begun = time.monotonic()
    trial = _Trial(read_model(base), samples[:MOST_SAMPLES], out)
    whole = trial.tried(())
    wanted_db = floor_db + _LEEWAY_DB
    if whole.snr_db >= wanted_db:
        raise ModelError(f"bf16 keeps {whole.snr_db:.1f} dB for the whole model, so no part needs float32.")
    if whole.snr_db < floor_db - _FAR_DB:
        raise ModelError(f"bf16 reaches only {whole.snr_db:.1f} dB, and no single part of the model is the cause.")
    everything = tuple(range(len(trial.groups)))
    best = trial.tried(everything)
    if best.snr_db < wanted_db:
        said = "some kernels always compute in bf16"
        raise ModelError(f"With every node kept in float32 it reaches {best.snr_db:.1f} dB: {said}.")
    # What each group adds to the noise when it alone goes back to bf16. Marks that help only together show so too.
    costs: dict[int, float] = {}
    for group in everything:
        costs[group] = trial.tried(tuple(each for each in everything if each != group)).noise - best.noise
        if time.monotonic() - begun > _COSTS_SHARE * limit_s:
            break
    # The cheapest go back first: how many may is found by halves, because noise does not simply add up.
    order = sorted(costs, key=lambda group: costs[group])
    found, marked = best, everything
    fewest, most = 0, len(order)
    while fewest < most and time.monotonic() - begun < limit_s:
        count = (fewest + most + 1) // 2
        fewer = tuple(each for each in everything if each not in order[:count])
        seen = trial.tried(fewer)
        if seen.snr_db >= wanted_db:
            found, marked, fewest = seen, fewer, count
        else:
            most = count - 1
    marked = trial.split(marked)
    for part in marked:
        if time.monotonic() - begun > limit_s:
            break
        fewer = tuple(each for each in marked if each != part)
        seen = trial.tried(fewer)
        if seen.snr_db >= wanted_db:
            found, marked = seen, fewer
    trial.write(marked)
    return trial.entry(marked, found, whole, time.monotonic() - begun)


class _Trial:
    """One model, run with some of its groups in float32."""

    def __init__(self, model: "Model", samples: Sequence[Feeds], place: Path) -> None:
        """`place`: where each trial is written."""
        self._model, self._samples, self._place = model, samples, place
        self.groups = _in_parts([node for node in model.get_ordered_ops() if _computes_floats(node)], GROUPS)
        self._reference = self._answers(self._compiled("f32", model))

    def split(self, precise: tuple[int, ...]) -> tuple[int, ...]:
        """Cuts these groups into parts; returns the places of the parts."""
        parts = [part for group in precise for part in _in_parts(self.groups[group], _PARTS)]
        others = [nodes for group, nodes in enumerate(self.groups) if group not in precise]
        self.groups = [*others, *parts]
        return tuple(range(len(others), len(self.groups)))

    def tried(self, precise: tuple[int, ...]) -> _Seen:
        self.write(precise)
        try:
            compiled = self._compiled("bf16", read_model(self._place))
            answers = self._answers(compiled)
        except RuntimeError:  # not every mixture of kernels can be prepared
            return _Seen(math.inf)
        accuracy = compare_outputs(self._reference, answers)
        ratios_db = [-math.inf if each.problem else each.snr_db for each in accuracy.outputs if not each.counted]
        if (tail := tail_of(accuracy)) is not None:
            # A goal lets the worst tenth be a little worse than all together.
            ratios_db.append(tail.tenth_db + TAIL_DB - _TAIL_LEEWAY_DB)
        return _Seen(10 ** (-min(ratios_db, default=-math.inf) / 10))

    def entry(self, precise: tuple[int, ...], found: _Seen, whole: _Seen, seconds: float) -> LedgerEntry:
        marked = tuple(node.get_friendly_name() for group in sorted(precise) for node in self.groups[group])
        count = sum(map(len, self.groups))
        what = f"kept in float32, so that bf16 reaches {found.snr_db:.1f} dB instead of {whole.snr_db:.1f}"
        return LedgerEntry(
            NAME,
            (Change(what, marked),),
            nodes_before=count,
            nodes_after=count,
            seconds=seconds,
            snr_db=found.snr_db,
        )

    def write(self, precise: tuple[int, ...]) -> None:
        for number, group in enumerate(self.groups):
            for node in group:
                marks = node.get_rt_info()
                if number in precise:
                    marks[PRECISE] = ""
                elif PRECISE in marks:
                    del marks[PRECISE]
        write_model(self._model, self._place)

    def _compiled(self, precision: str, model: "Model") -> "CompiledModel":
        config = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
        return core().compile_model(model, "CPU", config)

    def _answers(self, compiled: "CompiledModel") -> list[dict[str, Array]]:
        request, names = compiled.create_infer_request(), [port_name(port) for port in compiled.outputs]
        found = []
        for feeds in self._samples:
            results = request.infer(dict(feeds))
            found.append({name: results[port].copy() for name, port in zip(names, compiled.outputs, strict=True)})
        return found


def _computes_floats(node: "Node") -> bool:
    """Whether a mark may change what the node computes: not on sizes, which are most of some models' nodes."""
    return node.get_type_name() not in _NEVER and any(port.get_element_type().is_real() for port in node.outputs())


def _in_parts(nodes: "Sequence[Node]", count: int) -> "list[list[Node]]":
    size = max(1, math.ceil(len(nodes) / count))
    return [[*nodes[k : k + size]] for k in range(0, len(nodes), size)]
