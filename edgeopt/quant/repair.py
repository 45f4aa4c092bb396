"""Returns a few operations of an 8-bit model to float, so that it reaches an accuracy floor.

NNCF quantizes the whole model once. Each group of quantizers then runs in eight bits alone, in a model with
switches, which measures its noise at the outputs. Groups with the most noise for their work return to float, as
few as the floor allows. The sum of the groups' noise predicts their number; files with a few more or fewer are
then run and decide.
"""

import heapq
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.openvino.model import read_model
from edgeopt.data.judging.goals import TAIL_DB
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import EQUAL_DB, Accuracy, compare_outputs, decibels, lower_bound_db
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.graph.levels import tail_of
from edgeopt.quant.libraries import write_quantized
from edgeopt.quant.quantizer_groups import GatedQuantizers, find_groups, without

if TYPE_CHECKING:
    from openvino import Model

NAME = "nncf-repaired"
LIMIT_S = 25.0
MARGIN_DB = 1.0
"""The margin above the floor on the choosing samples, so that the proof samples reach it too."""
_TAIL_MARGIN_DB = 3.0
"""The margin for the worst tenth of the samples, which differs more between sets of samples."""
_PARTS = 12
"""The number of parts of neighbouring groups into which the model is divided at first."""
_NEGLIGIBLE = 0.02
"""Groups with less than this share of the noise that the floor allows are not ranked individually."""
_MAX_RANKING = 6
"""The most samples for ranking groups: those with the most noise in eight bits."""
_FRONTIER = (20.0, 25.0, 30.0, 35.0, 40.0, 45.0)
_INCOMPARABLE = 1e6

Outputs = Sequence[Mapping[str, Array]]


class RepairPoint(msgspec.Struct, frozen=True):
    """Accuracy on the choosing samples after returning a number of groups to float, by the ranking."""

    groups_returned: int
    work_share: float
    """The share of the model's work that is returned to float."""
    snr_db: float
    measured: bool
    """Whether a file was run; otherwise the accuracy is predicted from the sum of the remaining groups' noise."""


class Repair(msgspec.Struct, frozen=True):
    """The repaired model and how it was found."""

    returned: tuple[str, ...]
    """Names of the operations that compute in float again."""
    groups_returned: int
    groups: int
    work_share: float
    before_db: float
    """Signal-to-noise ratio of the whole model in eight bits, on the choosing samples."""
    after_db: float
    """Signal-to-noise ratio of the written file, on the same samples."""
    frontier: tuple[RepairPoint, ...]
    seconds: float
    entry: LedgerEntry


@dataclass(frozen=True, slots=True)
class _Part:
    """Neighbouring groups with their noise together."""

    groups: tuple[int, ...]
    noise: float
    """The noise of the worst output, as a ratio to its signal."""
    cost: float

    @property
    def worth(self) -> float:
        """The noise that returning the part removes, relative to the cost."""
        return self.noise / self.cost


def repair(
    base: Path,
    quantized: Path,
    out: Path,
    choosing: Sequence[Feeds],
    floor_db: float,
    *,
    limit_s: float = LIMIT_S,
) -> Repair:
    """Writes `out` (.xml), the model `base` (float, .onnx) in eight bits except the groups that the floor needs in
    float.

    `quantized` is the same model quantized by NNCF, with float weights behind quantizers. Samples that prove the
    result must not be among `choosing`, nor among the calibration samples. The search ends after about `limit_s`.
    Raises a ModelError if the floor is not reached with any group left in eight bits, or if the quantizers cannot
    be switched. The backend openvino-cpu runs the file with 32-bit floats: a CPU that uses fewer bits by default
    adds noise of its own.
    """
    if not choosing:
        raise ModelError("Repairing a quantized model needs data.", "Give some.")
    begin = time.monotonic()
    work = _Workbench(read_model(quantized), read_model(base), base, out, choosing, floor_db, begin + limit_s)
    return work.repaired(begin)


class _Workbench:
    """A model under repair."""

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
        self._entry: LedgerEntry | None = None
        self._in_file = frozenset[int]()

    def repaired(self, begin: float) -> Repair:
        before = self._written(frozenset())
        returned, after = frozenset[int](), before
        points = [RepairPoint(0, 0.0, before.snr_db, measured=True)]
        if _margin(before, self._floor_db) < 0:
            ranked = self._ranked(before)
            returned, after, points = self._search(ranked, before)
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

    def _ranked(self, before: Accuracy) -> list[_Part]:
        """Returns all groups in parts, the best to return first; divides the noisiest while time remains."""
        gated = GatedQuantizers(self._quantized, self.groups)
        count = len(self.groups)
        everything = frozenset(range(count))
        worst = min(before.outputs, key=lambda each: each.snr_db, default=None)
        noise = worst.noise_power if worst and worst.noise_power else (0.0,) * len(self._choosing)
        noisiest = sorted(range(len(noise)), key=lambda k: noise[k], reverse=True)
        gated.run(self._choosing[noisiest[0]], everything)
        begin = time.monotonic()
        floats = [gated.run(self._choosing[noisiest[0]], everything)]
        run_s = time.monotonic() - begin
        until = begin + 0.4 * (self._deadline - begin)
        samples = max(1, min(_MAX_RANKING, len(noisiest), int((until - begin) / (3 * _PARTS * max(run_s, 1e-6)))))
        feeds = [self._choosing[k] for k in noisiest[:samples]]
        floats += [gated.run(each, everything) for each in feeds[1:]]

        def part(groups: tuple[int, ...]) -> _Part:
            got = [gated.run(each, everything - set(groups)) for each in feeds]
            return _Part(groups, _noise(compare_outputs(floats, got)), self._cost(groups))

        size = math.ceil(count / _PARTS)
        parts = [part(tuple(range(k, min(k + size, count)))) for k in range(0, count, size)]
        queue = [(-each.noise, each.groups, each) for each in parts if len(each.groups) > 1]
        done = [each for each in parts if len(each.groups) == 1]
        heapq.heapify(queue)
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

    def _search(self, ranked: list[_Part], before: Accuracy) -> tuple[frozenset[int], Accuracy, list[RepairPoint]]:
        """Searches for the fewest leading parts to return: a first guess from their noise, then written files."""
        firsts = [frozenset(g for each in ranked[:k] for g in each.groups) for k in range(len(ranked) + 1)]
        total = sum(each.noise for each in ranked) or 1.0
        left = [sum(each.noise for each in ranked[k:]) / total * _noise(before) for k in range(len(ranked))]

        def enough(ratio_db: float) -> int:
            return next((k for k, noise in enumerate(left) if noise <= 10 ** (-ratio_db / 10)), len(left))

        points = {0: before}
        low, high, step = 0, len(ranked), 1  # something must stay in eight bits
        middle = enough(self._floor_db + MARGIN_DB)
        while high - low > 1 and (high == len(ranked) or time.monotonic() < self._deadline):
            middle = min(max(middle, low + 1), high - 1)
            points[middle] = self._written(firsts[middle])
            if _margin(points[middle], self._floor_db) >= 0:
                high, middle = middle, middle - step
            else:
                low, middle = middle, middle + step
            if low > 0 and high < len(ranked):
                middle = (low + high) // 2
            step *= 2
        if high == len(ranked):
            last = max(points)
            raise ModelError(
                f"The model does not reach {self._floor_db:g} dB with {len(firsts[last])} of {len(self.groups)} "
                f"groups of quantizers returned to float: {_describe_accuracy(points[last])}.",
                "Lower the floor, or use another way to quantize it.",
            )
        found, after = self._given_back(ranked, firsts[high], points[high])
        return found, after, self._frontier(firsts, {k: each.snr_db for k, each in points.items()}, left)

    def _frontier(
        self, firsts: list[frozenset[int]], measured: dict[int, float], left: list[float]
    ) -> list[RepairPoint]:
        """Returns the measured points, and predicted points near round ratios, corrected by the measured ones."""
        known = sorted(measured)
        sums = {k: -10 * math.log10(max(noise, 10 ** (-EQUAL_DB / 10))) for k, noise in enumerate(left)}
        apart = [measured[k] - sums[k] for k in known]
        ratios = {k: ratio + float(np.interp(k, known, apart)) for k, ratio in sums.items()} | measured
        near = {next((k for k in sorted(ratios) if ratios[k] >= each), 0) for each in _FRONTIER}
        return [
            RepairPoint(len(firsts[k]), self._cost(firsts[k]), ratios[k], measured=k in measured)
            for k in sorted(near | set(measured))
        ]

    def _given_back(
        self, ranked: list[_Part], found: frozenset[int], after: Accuracy
    ) -> tuple[frozenset[int], Accuracy]:
        """Returns expensive groups to eight bits, one by one, while time remains and the floor holds."""
        for part in sorted(ranked, key=lambda each: each.cost, reverse=True):
            if time.monotonic() > self._deadline:
                break
            spare = 10 ** (-self._floor_db / 10) - _noise(after)
            if not found.issuperset(part.groups) or part.noise > spare:
                continue
            fewer = found - set(part.groups)
            tried = self._written(fewer)
            if _margin(tried, self._floor_db) >= 0:
                found, after = fewer, tried
        if self._in_file != found:
            self._written(found)
        return found, after

    def _written(self, returned: frozenset[int]) -> Accuracy:
        """Writes the model with these groups in float and runs the file."""
        model = without(self._quantized, [self.groups[each] for each in sorted(returned)])
        self._entry = write_quantized(model, self._out, NAME, self._nodes_before)
        self._in_file = returned
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
    """Returns the decibels above the floor, the least of these samples, other samples and the worst tenth.

    The worst tenth of the samples may be less exact by `TAIL_DB`, as wherever a floor is judged.
    """
    tail = tail_of(accuracy)
    tenth_db = tail.tenth_db + TAIL_DB - _TAIL_MARGIN_DB if tail is not None else math.inf
    return min(accuracy.snr_db - MARGIN_DB, lower_bound_db(accuracy), tenth_db) - floor_db


def _noise(accuracy: Accuracy) -> float:
    if accuracy.problem or not math.isfinite(accuracy.snr_db):
        return _INCOMPARABLE
    return 0.0 if accuracy.snr_db >= EQUAL_DB else 10 ** (-accuracy.snr_db / 10)


def _describe_accuracy(accuracy: Accuracy) -> str:
    if accuracy.problem:
        return accuracy.problem.removesuffix(".")
    return f"{decibels(accuracy.snr_db)}, and on other samples at least {decibels(lower_bound_db(accuracy))}"
