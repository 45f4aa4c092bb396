"""Floats of 16 bits in OpenVINO, and of 32 where those are too coarse."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.openvino.model import core, port_name, read_model, write_model
from edgeopt.data.judging.goals import TAIL_DB
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.graph.levels import tail_of

if TYPE_CHECKING:
    from openvino import CompiledModel, Model, Node

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
