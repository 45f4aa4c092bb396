"""Proof of an import: the original and the ONNX model, compared on the same inputs."""

import ast
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends.base import Array, Backend, run_all
from edgeopt.errors import ModelError, VerificationError
from edgeopt.graph.accuracy import OutputAccuracy, compare_outputs, decibels, ratio_db

if TYPE_CHECKING:
    from edgeopt.graph.model import Model

Outputs = Sequence[Mapping[str, Array]]
SCOPES = "pkg.torch.onnx.name_scopes"
CHANGED_DB = 30.0
"""Least agreement in dB at values that are edgeopt's own choice: less means another branch, not rounding."""
SAMPLE_MARGIN_DB = 10.0
"""Amount in dB by which a single sample may be worse than all together."""
QUIET = 0.01
"""Share of the usual power; a sample with less is judged by this share, not by its own power."""


class OutputProof(msgspec.Struct, frozen=True):
    name: str
    snr_db: float
    worst_db: float
    """Accuracy of the worst sample; 200 if all are equal."""
    worst_run: int
    max_abs: float
    differing: int = 0
    """Number of unequal values of a label or of another output without fractions."""
    problem: str = ""


class LayerDifference(msgspec.Struct, frozen=True):
    name: str
    kind: str
    snr_db: float


class Proof(msgspec.Struct, frozen=True):
    equal: bool
    floor_db: float
    snr_db: float
    samples: int
    sizes: tuple[dict[str, int], ...]
    """Sizes of open dimensions, a run for each in addition to those of the samples."""
    outputs: tuple[OutputProof, ...]
    runtime: str
    layer: LayerDifference | None = None
    """First layer that differs, if the ONNX model has the names of the original's layers."""

    @property
    def difference(self) -> str:
        """Returns the difference in a sentence; empty if there is none."""
        bad = next((each for each in self.outputs if _fault(each, self.floor_db)), None)
        if bad is None:
            return ""
        where = f"sample {bad.worst_run}"
        if bad.worst_run >= self.samples:
            sizes = self.sizes[bad.worst_run - self.samples]
            where = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        message = bad.problem or f"The output '{bad.name}' {_fault(bad, self.floor_db)}; it is worst at {where}."
        layer = self.layer
        if layer is not None:
            by = "another shape" if layer.snr_db == -math.inf else decibels(layer.snr_db)
            message += f" First differing layer: '{layer.name}' ({layer.kind}), {by}."
        return message


def _fault(output: OutputProof, floor_db: float) -> str:
    if output.problem:
        return output.problem
    if output.differing:
        return f"differs in {output.differing:,} values"
    if output.snr_db < floor_db:
        return f"agrees to {decibels(output.snr_db)} only, and {floor_db:g} dB are needed"
    if output.worst_db < floor_db - SAMPLE_MARGIN_DB:
        return f"agrees to {decibels(output.worst_db)} only in one sample"
    return ""


def prove(  # noqa: PLR0913, PLR0917 - two tables of runs, each with what differs in them
    path: Path, feeds: Outputs, reference: Outputs, samples: int, sizes: Sequence[dict[str, int]],
    backend: Backend, floor_db: float, values: Sequence[str] = (),
) -> Proof:  # fmt: skip
    """Compares the ONNX model with the original; `sizes` are those of the runs after the samples, `values` the
    changes of values in the last runs."""
    got = _run_all(path, feeds, samples, sizes, backend)
    names = list(reference[0])
    if not set(names) & set(got[0]) and len(names) == len(got[0]):
        got = [dict(zip(names, run.values(), strict=True)) for run in got]
    changed = len(reference) - len(values)
    accuracy = compare_outputs(reference[:changed], got[:changed])
    outputs = tuple(_judged(output) for output in accuracy.outputs)
    equal = not any(_fault(output, floor_db) for output in outputs)
    if equal:
        _check_values(values, reference[changed:], got[changed:])
    return Proof(equal, floor_db, accuracy.snr_db, samples, tuple(sizes), outputs, backend.title)


def _run_all(
    path: Path, feeds: Outputs, samples: int, sizes: Sequence[dict[str, int]], backend: Backend
) -> list[dict[str, Array]]:
    """Returns all outputs of the ONNX model; if it fails, the error names the size."""
    session = backend.load(path, {})
    found = []
    try:
        for place, feed in enumerate(feeds):
            try:
                found.append(session.run(feed))
            except ModelError as error:
                where = _sizes_of(sizes, place - samples)
                raise ModelError(f"The exported model does not run{where}: {error.message}", error.hint) from error
    finally:
        session.close()
    return found


def _sizes_of(sizes: Sequence[dict[str, int]], place: int) -> str:
    one = sizes[place] if 0 <= place < len(sizes) else {}
    return " at " + ", ".join(f"{name} = {size}" for name, size in one.items()) if one else ""


def _check_values(values: Sequence[str], reference: Outputs, got: Outputs) -> None:
    """Raises VerificationError if the model takes another path at values that no sample has."""
    for what, expected, found in zip(values, reference, got, strict=True):
        for output in compare_outputs([expected], [found]).outputs:
            if not output.counted and output.snr_db < CHANGED_DB:
                by = output.problem or f"The output '{output.name}' agrees to {decibels(output.snr_db)} only."
                raise VerificationError(
                    f"The exported model does not answer as the original at {what}. {by}",
                    "Replace branches on values by torch.where, or give --data with values as they occur.",
                )


def _judged(output: OutputAccuracy) -> OutputProof:
    if output.problem:
        return OutputProof(output.name, output.snr_db, -math.inf, 0, math.inf, problem=output.problem)
    usual = QUIET * sum(output.signal_power) / len(output.signal_power)
    ratios = [ratio_db(n, max(s, usual)) for n, s in zip(output.noise_power, output.signal_power, strict=True)]
    worst = min(range(len(ratios)), key=ratios.__getitem__)
    differing = sum(n > 0 for n in output.noise_power) if output.counted else 0
    return OutputProof(output.name, output.snr_db, ratios[worst], worst, output.max_abs, differing)


def first_difference(
    model: "Model", sample: Mapping[str, Array], layers: Mapping[str, tuple[str, Array]], backend: Backend,
    floor_db: float, folder: Path,
) -> LayerDifference | None:  # fmt: skip
    """Returns the first layer of the original, in call order, whose value in the ONNX model differs."""
    from edgeopt.graph.copies import with_outputs
    from edgeopt.graph.model import save

    values = _values_of_layers(model)
    known = [name for name in layers if name in values]
    if not known:
        return None
    path = folder / "layers.onnx"
    watched = with_outputs(model.ir, list(dict.fromkeys(values[name] for name in known)))
    taken = {str(value.name) for value in watched.graph.inputs}
    save(watched, path)
    try:
        found = run_all(path, [{n: a for n, a in sample.items() if n in taken}], backend)[0]
    except ModelError:
        return None  # the message only has less detail
    for name in known:
        kind, expected = layers[name]
        accuracy = compare_outputs([{name: expected}], [{name: found[values[name]]}])
        if accuracy.snr_db < floor_db:
            return LayerDifference(name, kind, accuracy.snr_db)
    return None


def _values_of_layers(model: "Model") -> dict[str, str]:
    """Returns the last value of each layer of PyTorch, as both of its exporters name them."""
    found = {}
    for node in model.ir.graph:
        layer, name = "", node.name or ""
        if scopes := node.metadata_props.get(SCOPES):
            layer = "".join(ast.literal_eval(scopes)[-2:-1])
        elif name.startswith("/"):  # `/blocks/blocks.1/Relu` is in the layer `blocks.1`
            for part in name.split("/")[1:-1]:
                layer = part if not layer or part.startswith(f"{layer}.") else f"{layer}.{part}"
        found[layer] = str(node.outputs[0].name)
    found.pop("", None)
    return found
