"""The first layer that differs: found among intermediate values that both models have, a few at a time.

On the road to the output that differs most, each round asks both models for a few values, evenly spread, and goes
on between the last that is right and the first that is wrong behind it, so that no more than a few are ever held.
A graph has branches, and what is right on one says nothing of another: so a value counts as the first only when
all that it is computed from is right; otherwise the search goes on before that.

A value that is the same but for a factor counts as right, as later layers may take the factor back: weights that
were evened out between two layers do that. Where they do not, the difference behind it is as large, or what is
behind it cannot take a factor back, and the value with the factor is the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt import events
from edgeopt.commands.compare.records import LayerComparison, Probe
from edgeopt.errors import EdgeoptError
from edgeopt.graph.copies import values_by_name
from edgeopt.workspace import temporary_folder

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.backends.base import Array, Backend, Options
    from edgeopt.graph.diff import Matching

AT_ONCE = 8
# Of fewer values to a factor, some factor always fits.
_VALUES_A_FACTOR = 8
# Weights are evened out by larger factors than the tenth that this is; a smaller one is an error like any other.
_RESCALED_MAX_DB = 20.0
# What the factor does not explain must be this far below what it does.
_REST_BELOW_DB = 20.0
# They pass a factor on, or dilute it, and none of them takes it back.
_KEEPS_FACTORS = frozenset(
    {
        *("Add", "Sub", "Sum", "Concat", "Relu", "LeakyRelu", "Max", "Min", "Pad", "Where", "Identity", "Cast"),
        *("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Slice", "Gather", "Split"),
        *("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum", "ReduceMax", "Resize"),
    }
)
# A value this much closer than the previous one, which had a factor, has taken the factor back.
_TAKEN_BACK_DB = 6.0


@dataclass(frozen=True, slots=True)
class LayerRunner:
    """Model with its backend and the sample that it runs on."""

    model: "ir.Model"
    backend: "Backend"
    options: "Options"
    sample: dict[str, Any]

    def values(self, names: Sequence[str]) -> dict[str, Any]:
        from edgeopt.backends.base import run_all
        from edgeopt.graph.copies import with_outputs
        from edgeopt.graph.model import save

        with temporary_folder("compare") as folder:
            path = Path(folder) / "layers.onnx"
            watched = with_outputs(self.model, names)
            taken = {value.name for value in watched.graph.inputs}
            save(watched, path)
            sample = {name: array for name, array in self.sample.items() if name in taken}
            return run_all(path, [sample], self.backend, self.options)[0]


@dataclass(slots=True)
class LayerSearch:
    matching: "Matching"
    runners: tuple[LayerRunner, LayerRunner]
    floor_db: float
    emit: events.Emit
    order: list[tuple[str, str]]
    """The values that correspond, in the order of the first model."""
    probes: dict[str, Probe] = field(default_factory=dict)

    def bad(self, names: Sequence[str]) -> list[str]:
        """Returns the names of values below the floor, after comparing those not compared yet."""
        pairs = dict(self.order)
        unknown = [name for name in names if name not in self.probes]
        for begin in range(0, len(unknown), AT_ONCE):
            batch = [(name, pairs[name]) for name in unknown[begin : begin + AT_ONCE]]
            found = _compared(batch, self.matching, self.runners, self.floor_db)
            self.probes |= {probe.value: probe for probe in found}
        return [name for name in names if self._is_bad(self.probes[name])]

    def _is_bad(self, probe: Probe) -> bool:
        return probe.snr_db < self.floor_db and not probe.rescaled

    def seen(self) -> tuple[Probe, ...]:
        return tuple(self.probes[name] for name, _ in self.order if name in self.probes)


def first_difference(
    matching: "Matching",
    runners: tuple[LayerRunner, LayerRunner],
    output: str,
    output_db: float,
    floor_db: float,
    emit: events.Emit,
) -> LayerComparison:
    """Bisects the values before an output of the first model, whose own ratio is `output_db`."""
    model, order = runners[0].model, _tensors(matching, output)
    search = LayerSearch(matching, runners, floor_db, emit, order)
    road = _before(output, order, model)
    if not road:
        return LayerComparison(output, 0, None, not_compared="The models have no intermediate value in common.")
    try:
        found = _bisected(road, search) or output
        while suspects := search.bad(_sources(found, order, model)):
            found = _bisected(_before(suspects[0], order, model), search) or suspects[0]
        found = _rescaled_before(found, output_db, order, model, search)
    except EdgeoptError as error:
        return LayerComparison(output, len(road), None, search.seen(), error.message)
    return LayerComparison(output, len(road), search.probes.get(found), search.seen())


def _rescaled_before(
    found: str, output_db: float, order: Sequence[tuple[str, str]], model: "ir.Model", search: LayerSearch
) -> str:
    """Returns the value where a factor appeared that was not taken back before `found`, or else `found`."""
    while True:
        here, before = search.probes.get(found), _sources(found, order, model)
        search.bad(before)
        min_db = (output_db if here is None else here.snr_db) - _TAKEN_BACK_DB
        probes = (search.probes[name] for name in before)
        kept = _keeps_factors(found, order, search)
        one = next((p for p in probes if p.rescaled and (kept or p.snr_db >= min_db)), None)
        if one is None:
            return found
        found = one.value


def _keeps_factors(name: str, order: Sequence[tuple[str, str]], search: LayerSearch) -> bool:
    """Whether nothing between a value and those before it takes a factor back, in either model."""
    for place, runner in enumerate(search.runners):
        known = {pair[place] for pair in order}
        here = name if place == 0 else dict(order).get(name, name)
        made = values_by_name(runner.model)
        between = [here, *(_reached(here, runner.model, known) - known)] if here in made else []
        makers = [node for each in between if (node := made[each].producer()) is not None]
        if not makers or not {node.op_type for node in makers} <= _KEEPS_FACTORS:
            return False
    return True


def _bisected(values: list[str], search: LayerSearch) -> str | None:
    """Returns a wrong value behind a right one, or None if none is found wrong."""
    right, wrong = -1, len(values)
    while wrong - right > 1:
        search.emit(events.Progress("layers", f"looking between {right + 2} and {wrong} of {len(values)} values"))
        between = wrong - right - 1
        count = min(AT_ONCE, between)
        places = sorted({right + round((step + 1) * (between + 1) / (count + 1)) for step in range(count)})
        bad = set(search.bad([values[place] for place in places]))
        wrong = next((place for place in places if values[place] in bad), wrong)
        right = max((place for place in places if place < wrong), default=right)
    return values[wrong] if wrong < len(values) else None


def _compared(
    values: "Sequence[tuple[str, str]]",
    matching: "Matching",
    runners: tuple[LayerRunner, LayerRunner],
    floor_db: float,
) -> list[Probe]:
    from edgeopt.graph.accuracy import compare_outputs

    first = runners[0].values([name for name, _ in values])
    second = runners[1].values(list(dict.fromkeys(name for _, name in values)))
    probes = []
    for name, other in values:
        accuracy = compare_outputs([{name: first[name]}], [{name: second[other]}])
        worst = max((o.max_abs for o in accuracy.outputs), default=0.0)
        nodes = _maker(matching.first.nodes, name), _maker(matching.second.nodes, other)
        scaled = accuracy.problem is None and accuracy.snr_db < min(floor_db, _RESCALED_MAX_DB)
        min_db = max(floor_db, accuracy.snr_db + _REST_BELOW_DB)
        rescaled = scaled and _is_rescaled(first[name], second[other], min_db)
        probes.append(Probe(name, other, *nodes, accuracy.snr_db, worst, accuracy.problem, rescaled))
    return probes


def _is_rescaled(first: "Array", second: "Array", min_db: float) -> bool:
    """Whether the second is the first times a positive factor: one for all, or one per channel or feature."""
    import numpy as np

    from edgeopt.graph.accuracy import signal_to_noise_db

    a, b = np.asarray(first), np.asarray(second)
    if a.dtype.kind != "f" or a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    a, b = a.astype(np.float64), b.astype(np.float64)
    for kept in ((), (1,), (a.ndim - 1,)):
        if any(axis >= a.ndim for axis in kept):
            continue
        over = tuple(axis for axis in range(a.ndim) if axis not in kept)
        if a.size < _VALUES_A_FACTOR * (a.shape[kept[0]] if kept else 1):
            continue
        power = (a * a).sum(axis=over, keepdims=True)
        factor = (a * b).sum(axis=over, keepdims=True) / np.where(power > 0, power, 1.0)
        if (factor[power > 0] > 0).all() and signal_to_noise_db(b, a * factor) >= min_db:
            return True
    return False


def _maker(nodes: "Sequence[ir.Node]", name: str) -> str:
    from edgeopt.graph.nodes import label

    return next((label(node) for node in nodes if any(value.name == name for value in node.outputs)), name)


def _tensors(matching: "Matching", output: str) -> list[tuple[str, str]]:
    """Returns the values of tensors that correspond, but for the output itself."""
    from edgeopt.graph.diff import corresponding

    own = {str(v.name) for node in matching.first.nodes for v in node.outputs if v.dtype is not None}
    others = {str(v.name) for node in matching.second.nodes for v in node.outputs if v.dtype is not None}
    return [(a, b) for a, b in corresponding(matching) if a in own and b in others and a != output]


def _before(name: str, order: Sequence[tuple[str, str]], model: "ir.Model") -> list[str]:
    """Returns the corresponding values that a value is computed from, in order."""
    needed = _reached(name, model, set())
    return [each for each, _ in order if each in needed]


def _sources(name: str, order: Sequence[tuple[str, str]], model: "ir.Model") -> list[str]:
    """Returns the corresponding values that a value is computed from with no other one between, in order."""
    known = {each for each, _ in order}
    nearest = _reached(name, model, known) & known
    return [each for each, _ in order if each in nearest]


def _reached(name: str, model: "ir.Model", stops: set[str]) -> set[str]:
    """Returns the values before one, as far as those at which to stop."""
    made = values_by_name(model)
    reached: set[str] = set()
    waiting = [made[name]]
    for value in waiting:
        maker = value.producer()
        for each in maker.inputs if maker is not None else ():
            if each is not None and each.name in made and each.name not in reached:
                reached.add(each.name)
                if each.name not in stops:
                    waiting.append(each)
    return reached
