"""Returns a few operations of a model in eight bits to float, so that it reaches an accuracy floor.

NNCF quantizes the whole model once. Each group of quantizers then runs in eight bits alone, in a model with
switches, which gives its noise at the outputs. Those with the most noise for the work they save return to float,
as few as the floor allows. The file that is written decides, not the model with switches.
"""

import heapq
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.openvino.model import read_model
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import EQUAL_DB, Accuracy, compare_outputs, decibels, lower_bound_db
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.quant.libraries import quantized_by_nncf, write_quantized
from edgeopt.quant.quantizer_groups import GatedQuantizers, find_groups, without

if TYPE_CHECKING:
    from openvino import Model

NAME = "nncf-repaired"
LIMIT_S = 25.0
MARGIN_DB = 1.0
"""Above the floor on the samples that choose, for the samples that prove."""
FRONTIER_DB = 45.0
"""How far the frontier goes; it starts at the whole model in eight bits."""
_PARTS = 12
"""Into how many runs of neighbouring groups the model is divided at first."""
_NEGLIGIBLE = 0.02
"""Groups with less than this share of the noise that the floor allows are not told apart."""
_CHECKS = 24
"""About how many combinations are run, which decides on how many samples."""
_ATTEMPTS = 5
"""How many files are written and checked until the floor is reached."""
_INCOMPARABLE = 1e6
_HINT = "Lower the floor, or use another way to quantize it."

Outputs = Sequence[Mapping[str, Array]]


class FrontierPoint(msgspec.Struct, frozen=True):
    """What returning a number of groups gives, in the model with switches."""

    groups_returned: int
    work_share: float
    """Of the model's work, what is then done in floats that was in eight bits."""
    snr_db: float


class Repair(msgspec.Struct, frozen=True):
    """The repaired model and how it was found."""

    returned: tuple[str, ...]
    """The operations that compute in floats again."""
    groups_returned: int
    groups: int
    work_share: float
    before_db: float
    """The whole model in eight bits, on the samples that choose."""
    after_db: float
    """The file written, on the same samples."""
    frontier: tuple[FrontierPoint, ...]
    seconds: float
    entry: LedgerEntry


@dataclass(frozen=True, slots=True)
class _Part:
    """Neighbouring groups whose noise is known together."""

    groups: tuple[int, ...]
    noise: float
    """Of the weakest output, as a share of its signal."""
    cost: float

    @property
    def worth(self) -> float:
        """Noise that returning it removes, for what that costs."""
        return self.noise / self.cost


def repair(
    base: Path,
    out: Path,
    calibration: Sequence[Feeds],
    choosing: Sequence[Feeds],
    floor_db: float,
    *,
    transformer: bool = False,
    limit_s: float = LIMIT_S,
) -> Repair:
    """Writes `out` (.xml): the model `base` (float, .onnx) in eight bits but for what the floor needs in floats.

    Samples that prove the result must not be among `calibration` and `choosing`. The search ends after about
    `limit_s`; where NNCF takes longer than half of that to quantize, the search still takes the other half. Raises
    ModelError where the floor is not reached with anything left in eight bits, or where the quantizers cannot be
    switched.
    """
    if not calibration or not choosing:
        raise ModelError("Repairing a quantized model needs data.", "Give some.")
    begin = time.monotonic()
    model = read_model(base)
    quantized = quantized_by_nncf(model, calibration, transformer=transformer, pack_weights=False)
    deadline = max(begin + limit_s, time.monotonic() + limit_s / 2)
    work = _Workbench(quantized, model, base, out, choosing, floor_db, deadline)
    return work.repaired(begin)


class _Workbench:
    """One model under repair."""

    def __init__(
        self,
        quantized: "Model",
        model: "Model",
        base: Path,
        out: Path,
        choosing: Sequence[Feeds],
        floor_db: float,
        deadline: float,
    ) -> None:
        self._quantized = quantized
        self._nodes_before = len(model.get_ops())
        self._out = out
        self._choosing = choosing
        self._floor_db = floor_db
        self._deadline = deadline
        shapes = {name: array.shape for name, array in choosing[0].items()}
        self.groups = find_groups(quantized, model, shapes)
        self._reference = _answers(base, choosing)
        self._checked = len(choosing)
        self._seen: dict[frozenset[int], Accuracy] = {}
        self._entry: LedgerEntry | None = None

    def repaired(self, begin: float) -> Repair:
        before = self._written(frozenset())
        returned, after, points = frozenset[int](), before, [FrontierPoint(0, 0.0, before.snr_db)]
        if _margin(before, self._floor_db) < 0:
            self._gated = GatedQuantizers(self._quantized, self.groups)
            self._check_reachable()
            ranked = self._ranked()
            returned, after, points = self._search(ranked)
        assert self._entry is not None  # noqa: S101 - set by writing
        names = tuple(dict.fromkeys(name for each in sorted(returned) for name in self.groups[each].names))
        change = [Change("returned to float", names)] if names else []
        return Repair(
            names,
            len(returned),
            len(self.groups),
            self._cost(returned),
            before.snr_db,
            after.snr_db,
            tuple(points),
            time.monotonic() - begin,
            msgspec.structs.replace(
                self._entry,
                applied=(*self._entry.applied, *change),
                seconds=time.monotonic() - begin,
                snr_db=after.snr_db,
            ),
        )

    def _check_reachable(self) -> None:
        """Whether it helps to return all groups; and how many samples there is time to run."""
        everything = frozenset(range(len(self.groups)))
        begin = time.monotonic()
        best = self._switched(everything)
        run_s = (time.monotonic() - begin) / self._checked
        if best.snr_db < self._floor_db + MARGIN_DB:
            raise ModelError(
                f"The model does not reach {self._floor_db:g} dB with quantizers even with all {len(self.groups)} "
                f"groups of quantizers returned to float: {_said(best)}.",
                _HINT,
            )
        time_s = 0.4 * (self._deadline - time.monotonic())
        self._checked = max(2, min(self._checked, int(time_s / (_CHECKS * max(run_s, 1e-6)))))
        self._checked = min(self._checked, len(self._choosing))
        self._ranking = max(1, min(4, self._checked, int(time_s / (3 * _PARTS * max(run_s, 1e-6)))))
        self._seen.clear()

    def _ranked(self) -> list[_Part]:
        """All groups in parts, those first that are best returned; the noisiest are divided while time lasts."""
        count = len(self.groups)
        everything = frozenset(range(count))
        spread = [int(k * len(self._choosing) / self._ranking) for k in range(self._ranking)]
        feeds = [self._choosing[k] for k in spread]
        floats = [self._gated.run(each, everything) for each in feeds]

        def part(groups: tuple[int, ...]) -> _Part:
            got = [self._gated.run(each, everything - set(groups)) for each in feeds]
            return _Part(groups, _noise(compare_outputs(floats, got)), self._cost(groups))

        size = math.ceil(count / _PARTS)
        parts = [part(tuple(range(k, min(k + size, count)))) for k in range(0, count, size)]
        queue = [(-each.noise, each.groups, each) for each in parts if len(each.groups) > 1]
        done = [each for each in parts if len(each.groups) == 1]
        heapq.heapify(queue)
        until = time.monotonic() + 0.5 * (self._deadline - time.monotonic())
        negligible = _NEGLIGIBLE * 10 ** (-max(self._floor_db, 0.0) / 10)
        while queue and time.monotonic() < until and queue[0][2].noise > negligible:
            groups = heapq.heappop(queue)[2].groups
            for half in (groups[: len(groups) // 2], groups[len(groups) // 2 :]):
                made = part(half)
                if len(half) > 1:
                    heapq.heappush(queue, (-made.noise, half, made))
                else:
                    done.append(made)
        return sorted([*done, *(each for _, _, each in queue)], key=lambda each: each.worth, reverse=True)

    def _search(self, ranked: list[_Part]) -> tuple[frozenset[int], Accuracy, list[FrontierPoint]]:
        firsts = [frozenset(g for each in ranked[:k] for g in each.groups) for k in range(len(ranked) + 1)]
        most = len(ranked) - 1  # something must stay in eight bits
        counts = sorted({0, most, *(round(most ** (k / 6)) for k in range(7))}) if most else [0]
        points = {}
        for k in counts:
            points[k] = self._switched(firsts[k])
            if points[k].snr_db >= max(FRONTIER_DB, self._floor_db + MARGIN_DB):
                break
        target, found, after = self._floor_db + MARGIN_DB, frozenset[int](), None
        for attempt in range(1, _ATTEMPTS + 1):
            low = max((k for k, accuracy in points.items() if accuracy.snr_db < target), default=-1)
            high = min((k for k in points if k > low), default=most)
            while high - low > 1:
                middle = (low + high) // 2
                points[middle] = self._switched(firsts[middle])
                low, high = (low, middle) if points[middle].snr_db >= target else (middle, high)
            found = firsts[high]
            after = self._written(found)
            lacks = -_margin(after, self._floor_db)
            if lacks <= 0 or high == most:
                break
            target += attempt * max(lacks, 0.5)
        assert after is not None  # noqa: S101 - there is an attempt
        if _margin(after, self._floor_db) < 0:
            raise ModelError(
                f"The model does not reach {self._floor_db:g} dB with {len(found)} of {len(self.groups)} groups of "
                f"quantizers returned to float: {_said(after)}.",
                _HINT,
            )
        curve = [
            FrontierPoint(len(firsts[k]), self._cost(firsts[k]), accuracy.snr_db)
            for k, accuracy in sorted(points.items())
        ]
        return *self._given_back(ranked, found, after), curve

    def _given_back(
        self, ranked: list[_Part], found: frozenset[int], after: Accuracy
    ) -> tuple[frozenset[int], Accuracy]:
        """Puts expensive groups back into eight bits, one by one, while time lasts and the floor holds."""
        now = self._switched(found)
        # Where the switches promise more than the file gives, they must promise that much more here too.
        target = self._floor_db + max(MARGIN_DB, now.snr_db - _margin(after, 0.0))
        kept = found
        for part in sorted(ranked, key=lambda each: each.cost / len(each.groups), reverse=True):
            spare = 10 ** (-target / 10) - _noise(now)
            if not kept.issuperset(part.groups) or part.noise > 2 * max(spare, 0.0):
                continue
            if time.monotonic() > self._deadline:
                break
            tried = self._switched(kept - set(part.groups))
            if tried.snr_db >= target:
                kept, now = kept - set(part.groups), tried
        if kept == found:
            return found, after
        better = self._written(kept)
        if _margin(better, self._floor_db) >= 0:
            return kept, better
        self._written(found)
        return found, after

    def _switched(self, returned: frozenset[int]) -> Accuracy:
        if returned not in self._seen:
            step = len(self._choosing) / self._checked
            chosen = [int(k * step) for k in range(self._checked)]
            got = [self._gated.run(self._choosing[k], returned) for k in chosen]
            self._seen[returned] = compare_outputs([self._reference[k] for k in chosen], got)
        return self._seen[returned]

    def _written(self, returned: frozenset[int]) -> Accuracy:
        """Writes the model with these groups in floats and runs the file."""
        model = without(self._quantized, [self.groups[each] for each in sorted(returned)])
        self._entry = write_quantized(model, self._out, NAME, self._nodes_before)
        return compare_outputs(self._reference, _answers(self._out, self._choosing))

    def _cost(self, groups: "Sequence[int] | frozenset[int]") -> float:
        return sum(self.groups[each].cost for each in groups)


def _answers(path: Path, samples: Sequence[Feeds]) -> Outputs:
    session = backend_named("openvino-cpu").load(path, {"precision": "f32"})
    try:
        return [session.run(each) for each in samples]
    finally:
        session.close()


def _margin(accuracy: Accuracy, floor_db: float) -> float:
    """By how many dB the floor is reached on these samples, and on others of their kind."""
    return min(accuracy.snr_db - MARGIN_DB, lower_bound_db(accuracy)) - floor_db


def _noise(accuracy: Accuracy) -> float:
    if accuracy.problem or not math.isfinite(accuracy.snr_db):
        return _INCOMPARABLE
    return 0.0 if accuracy.snr_db >= EQUAL_DB else 10 ** (-accuracy.snr_db / 10)


def _said(accuracy: Accuracy) -> str:
    if accuracy.problem:
        return accuracy.problem.removesuffix(".")
    return f"{decibels(accuracy.snr_db)}, and on other samples at least {decibels(lower_bound_db(accuracy))}"
