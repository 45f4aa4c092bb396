"""The choice of schemes for one configuration, confirmed by runs of the written model on the planning samples."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from edgeopt.data.judging.goals import BUDGETS_DB
from edgeopt.data.judging.metric import Judged
from edgeopt.errors import EdgeoptError
from edgeopt.events import Log, Progress
from edgeopt.quant.measured.planning.entry import Entry, precision_plan, quantized, settings_for, write_entry
from edgeopt.quant.measured.proof import PHASE, ContestSide, ranked
from edgeopt.quant.measured.timing.gains import ConfigGains, measure_gains, unfit_reasons
from edgeopt.quant.measured.work import QuantizeRun
from edgeopt.quant.plan.search import Chosen, choose
from edgeopt.quant.records import FLOAT, FrontierPoint, LayerGain, LayerVerdict, PrecisionPlan, Sensitivity
from edgeopt.units import milliseconds

_MAX_CHECKS = 14
# A loose floor must not end in a slower plan than this stricter floor, which is a common choice.
_STRICTER_DB = BUDGETS_DB["transparent"]
_STRICTER_CHECKS = 6
# Kernel times miss some costs of schemes side by side: a single scheme is tried too if its expected time is within
# this factor of the plan's.
_COULD_BE_QUICKER = 1.4
# The share of the time limit for the sensitivities of one backend.
_SENSITIVITY_SHARE = 0.35

Score = tuple[float, float]


class Chooser:
    """Search for the schemes of one configuration, with its sensitivities and the measured scores of choices."""

    def __init__(
        self,
        work: QuantizeRun,
        gains: ConfigGains,
        shared: Mapping[str, Sequence[str]],
        until: float | None = None,
    ) -> None:
        """Measures the sensitivities of `shared`, the schemes of all configurations of the same backend, so that
        one simulation serves all of them.

        Choices that are not checked before `until`, on the monotonic clock, count as below the goal.
        """
        self.work, self.gains, self._until = work, gains, until
        self.cut_short = False
        """Whether some choices were not checked for lack of time."""
        target_db, limit_s = work.request.goal.target_db, _SENSITIVITY_SHARE * work.limit_s
        known = work.study.sensitivities(
            gains.config.backend, shared, target_db, limit_s, **settings_for(gains.config)
        )
        self.sensitivities = tuple(each for each in known if each.scheme in gains.schemes.get(each.layer, ()))
        self.held_back: Judged | None = None
        """The first rejected result that reached the floor over all samples together, but not on each level."""
        self._scores: dict[frozenset[tuple[str, str]], Score] = {}

    def entries(self) -> list[Entry]:
        """Returns the entry of the plan, and of alternatives that may be faster than the layers' times show."""
        with self.work.study.phase("choosing", self.gains.config.name):
            best = self._chosen(self.sensitivities)
            main = self._entry(best)
            found = [main]
            schemes = [scheme for _, scheme in sorted(best.point.choices.items())]
            if len(set(schemes)) > 1 and not self._mixes_well():
                leading = max(dict.fromkeys(schemes), key=schemes.count)
                alone = self._chosen(tuple(each for each in self.sensitivities if each.scheme == leading))
                found.append(self._entry(alone))
            if (goal := self.work.request.goal).is_ratio and goal.needed < _STRICTER_DB:
                stricter = self._chosen(self.sensitivities, _STRICTER_DB, _STRICTER_CHECKS)
                if (choices := quantized(stricter.point.choices)) and choices != quantized(main.choices):
                    found.append(self._entry(stricter))
            weighted = self._weighted()
            if not weighted.issuperset(main.choices):
                rest = self._chosen(tuple(each for each in self.sensitivities if each.layer in weighted))
                found.append(self._entry(rest))
            for scheme in self.gains.timed.scheme_ms:
                found += self._uniform(scheme, main)
        held = self.held_back
        if held is not None and held.weakest is not None:
            self.work.warn(
                f"On {self.gains.config.name}, plans were rejected that reach the floor only over all samples "
                f"together. {held.weakest.sentence}"
            )
        return found

    def check(self, choices: Mapping[str, str]) -> Score:
        """Returns the score of the written model by the goal's metric, and its lower bound for other samples."""
        key = frozenset(quantized(choices).items())
        if key not in self._scores:
            if self._until is not None and time.monotonic() > self._until:
                self.cut_short = True
                return -math.inf, -math.inf
            work, name = self.work, self.gains.config.name
            task = f"{len(key)} layers together on {name}"
            left_s = max(0.0, work.left_s())
            work.emit(Progress("checking plans", task, len(self._scores), _MAX_CHECKS, time_left_s=left_s))
            try:
                entry = write_entry(work.study, self.gains.config, choices, self._path("checked"))
                judged = work.judge.judged(entry.path, entry.config, work.sample_sets.plan)
                self._scores[key] = work.request.goal.score(judged)
                self._note(judged)
            except EdgeoptError as error:
                work.warn(f"A plan did not run on {name}: {error.message}")
                self._scores[key] = (-math.inf, -math.inf)
        return self._scores[key]

    def _note(self, judged: Judged) -> None:
        goal, together_db = self.work.request.goal, judged.pooled_low_db
        if judged.weakest is None or together_db is None or goal.met(judged):
            return
        if goal.target_db is not None and together_db >= goal.target_db and self.held_back is None:
            self.held_back = judged

    def _chosen(
        self,
        sensitivities: tuple[Sensitivity, ...],
        floor: float | None = None,
        max_checks: int = _MAX_CHECKS,
    ) -> Chosen:
        """Chooses the schemes of the layers; `floor` replaces the goal's."""
        goal, timed = self.work.request.goal, self.gains.timed
        return choose(
            *(self.work.study.layers, sensitivities, timed.gains, floor or goal.needed, self.check),
            base=self.gains.base,
            borders=timed.borders,
            float_ms=timed.float_ms,
            in_decibels=goal.is_ratio,
            reasons=unfit_reasons(self.work.study, self.gains),
            max_checks=max_checks,
            emit=self._ignore_event,
        )

    def _ignore_event(self, event: object) -> None:
        """Ignores the progress events of `choose`, because `check` emits more detailed ones."""

    def _entry(self, found: Chosen) -> Entry:
        entry = write_entry(self.work.study, self.gains.config, found.point.choices, self._path("plan"))
        entry.plan = self._plan(entry, found.point, found.frontier, found.verdicts)
        entry.points = [point for point in found.frontier if point.expected_ms > found.point.expected_ms][::-1]
        return entry

    def _uniform(self, scheme: str, main: Entry) -> list[Entry]:
        """Returns entries with a single scheme if they meet the goal: they need no conversions within the model.

        One entry has the scheme on all layers that it fits, another only on layers with weights, because a scheme
        on the products of attention changes the kernels around them.
        """
        alone = {gain.layer: gain for gain in self.gains.timed.gains if gain.scheme == scheme}
        weighted = self._weighted()
        those = {name: gain for name, gain in alone.items() if name in weighted}
        several = [alone, those] if len(those) < len(alone) else [alone]
        return [entry for gains in several if (entry := self._alone(scheme, gains, main)) is not None]

    def _alone(self, scheme: str, gains: Mapping[str, LayerGain], main: Entry) -> Entry | None:
        planned, goal = self.gains, self.work.request.goal
        choices = dict.fromkeys(gains, scheme)
        assert main.plan is not None  # noqa: S101 - `_entry` made it
        expected_ms = planned.timed.float_ms - sum(gain.saves_ms for gain in gains.values())
        if (
            not choices
            or choices == main.choices
            or expected_ms > _COULD_BE_QUICKER * main.plan.chosen.expected_ms
        ):
            return None
        value, low = self.check(choices)
        if (low if goal.kind.decided_by_low else value) < goal.needed:
            return None
        entry = write_entry(self.work.study, planned.config, choices, self._path("plan"))
        snr_db, low_db = (value, low) if goal.is_ratio else (None, None)
        point = FrontierPoint(choices, expected_ms, snr_db or 0.0, snr_db, low_db)
        before = {verdict.layer: verdict for verdict in main.plan.verdicts}
        verdicts = tuple(_instead(before[name], choices.get(name, FLOAT)) for name in before)
        frontier = sorted([*main.plan.frontier, point], key=lambda each: -each.expected_ms)
        entry.plan = self._plan(entry, point, tuple(frontier), verdicts)
        entry.points = [main.plan.chosen, *main.points]
        return entry

    def _weighted(self) -> set[str]:
        return {layer.name for layer in self.work.study.layers if layer.weight}

    def _mixes_well(self) -> bool:
        """Whether conversions between schemes cost nothing on this backend."""
        return not self.gains.timed.borders

    def _plan(
        self,
        entry: Entry,
        point: FrontierPoint,
        frontier: tuple[FrontierPoint, ...],
        verdicts: tuple[LayerVerdict, ...],
    ) -> PrecisionPlan:
        planned = self.gains
        return msgspec.structs.replace(
            precision_plan(entry, self.work.request.goal, point, verdicts, frontier),
            sensitivities=self.sensitivities,
            gains=planned.timed.gains,
            base_db=planned.base_db,
            warnings=planned.timed.warnings,
        )

    def _path(self, kind: str) -> Path:
        """Returns a new path for the file of a plan; all checked files share one path."""
        if kind == "checked":
            return self.work.folder / "checked.onnx"
        return self.work.folder / f"plan-{len(list(self.work.folder.glob('plan-*.onnx')))}.onnx"


def _instead(verdict: LayerVerdict, scheme: str) -> LayerVerdict:
    """Returns the verdict of a layer after a single scheme replaced the plan's choice."""
    if verdict.scheme == scheme:
        return verdict
    why = (
        "kept float: no scheme here makes the whole model faster"
        if scheme == FLOAT
        else f"{scheme}: all layers in this scheme run faster than some"
    )
    return msgspec.structs.replace(verdict, scheme=scheme, reason=why)


def stepped_back(work: QuantizeRun, entry: Entry) -> Entry:
    """Returns the entry of the next more exact point, or of the float model if there is none."""
    point, rest = (entry.points[0], entry.points[1:]) if entry.points else (FrontierPoint({}, 0.0, math.inf), [])
    found = write_entry(work.study, entry.config, point.choices, entry.path)
    found.points = rest
    if entry.plan is not None:
        verdicts = tuple(_given_back(verdict, point) for verdict in entry.plan.verdicts)
        found.plan = msgspec.structs.replace(entry.plan, chosen=point, verdicts=verdicts)
    return found


def _given_back(verdict: LayerVerdict, point: FrontierPoint) -> LayerVerdict:
    """Returns the verdict of a layer after a step back to a more exact point."""
    scheme = point.choices.get(verdict.layer, "float")
    if scheme == verdict.scheme:
        return verdict
    result = "kept float" if scheme == "float" else scheme
    why = f"{result}: with {verdict.scheme} the plan missed the goal on samples set aside"
    return msgspec.structs.replace(verdict, scheme=scheme, reason=why)


# A backend configuration whose best case is slower than another's by this factor is not planned.
_HOPELESS = 1.2


def promising_configs(work: QuantizeRun, candidates: Sequence[ConfigGains]) -> list[ConfigGains]:
    """Returns the configurations whose best case is close to the best of all."""
    able = [gains for gains in candidates if gains.schemes]
    least_ms = min((gains.best_ms for gains in candidates), default=0.0)
    for gains in able:
        if gains.best_ms > _HOPELESS * least_ms:
            reason = f"at best {milliseconds(gains.best_ms)}, while another reaches {milliseconds(least_ms)}"
            work.emit(Log("info", f"{gains.config.name} is not planned: {reason}."))
    return [gains for gains in able if gains.best_ms <= _HOPELESS * least_ms]


def shared_schemes(gains: ConfigGains, planned: Sequence[ConfigGains]) -> Mapping[str, Sequence[str]]:
    """Returns the schemes of all configurations of a backend, by layer, so that all share one simulation."""
    found: dict[str, dict[str, None]] = {}
    for each in planned:
        if each.config.backend == gains.config.backend:
            for layer, schemes in each.schemes.items():
                found.setdefault(layer, {}).update(dict.fromkeys(schemes))
    return {layer: tuple(schemes) for layer, schemes in found.items()}


def proven(work: QuantizeRun, entry: Entry) -> Entry:
    """Returns the entry, or the next more exact point that meets the goal on the proof samples; float if none
    does.

    A float model that the backend rounds is proved as well, because it runs where no layer has another scheme.
    """
    steps = 0
    while not entry.is_source:
        with work.study.phase("proving", entry.config.name):
            proof = work.judge.proof(entry.path, entry.config, steps)
        if work.judge.met(proof) or entry.is_float:
            entry.proof = proof
            return entry
        steps += 1
        accuracy = f"{proof.snr_db:.1f} dB ({proof.low_db:.1f} on others perhaps)"
        work.emit(Log("info", f"On the samples set aside the plan reaches {accuracy}: one step back."))
        entry = stepped_back(work, entry)
        entry.proof = proof
    return entry


@dataclass(slots=True)
class ConfigPlans:
    """The plans of all configurations that may be the fastest."""

    all_gains: Sequence[ConfigGains]
    entries: list[Entry] = field(default_factory=list)
    """Proven plans, and the float model where no plan meets the goal."""
    unplanned: set[str] = field(default_factory=set)
    """Backends with a promising configuration but without a plan."""
    error: EdgeoptError | None = None
    """The first error of a configuration that could not be planned."""
    unfinished: list[str] = field(default_factory=list)
    """Names of the configurations that the time limit left without a plan."""

    @property
    def why_none(self) -> str:
        """Returns the reason that there is no plan, as the end of a sentence."""
        if not self.all_gains:
            return "no scheme fits any layer on the available backends"
        if self.unfinished:
            return f"the time limit left no time to plan {' or '.join(self.unfinished)}"
        without = [each.config.name for each in self.all_gains if not each.schemes]
        slow = [each.config.name for each in self.all_gains if each.schemes]
        parts = [f"no layer is clearly faster in any scheme on {' or '.join(without)}"] if without else []
        if slow:
            quickest = min(self.all_gains, key=lambda each: each.best_ms).config.name
            parts.append(f"the best plan for {' or '.join(slow)} is estimated to be slower than {quickest}")
        return ", and ".join(parts)


def plan_configs(work: QuantizeRun, planning_ends: float, until: float | None = None) -> ConfigPlans:
    """Plans each promising configuration, and proves the plans.

    Once the share `planning_ends` of the time limit has passed, no further configuration is planned; choices that
    are not checked before `until`, on the monotonic clock, count as below the goal.
    """
    work.study.calibrated()
    plans = ConfigPlans(measure_gains(work))
    able = promising_configs(work, plans.all_gains)
    for gains in able:
        if plans.entries and work.left_s(planning_ends) < 0:
            work.warn(f"{gains.config.name} was not planned within the time limit; a longer one allows it.")
            continue
        try:
            chooser = Chooser(work, gains, shared_schemes(gains, able), until)
            entries = chooser.entries()
            if chooser.cut_short and all(entry.is_float for entry in entries):
                work.warn(f"{gains.config.name} was only partly planned within the time limit.")
                plans.unfinished.append(gains.config.name)
                continue
            plans.entries += [proven(work, entry) for entry in entries]
        except EdgeoptError as error:
            work.warn(f"No plan for {gains.config.name}: {error.message}")
            plans.error = plans.error or error
    # One plan for a backend is enough, on whichever of its configurations.
    plans.unplanned = {each.config.backend for each in able} - {each.config.backend for each in plans.entries}
    return plans


_SAME = 1.01


def fastest(work: QuantizeRun, entries: Sequence[Entry]) -> Entry:
    """Returns the fastest entry in a few interleaved rounds, or the first if none can be measured.

    Among entries that are equally fast within 1 %, the first is returned: entries are in the order of their
    predicted gain.
    """
    if len(entries) == 1:
        return entries[0]
    runners = [
        ContestSide(f"{number}: {each.name}", each.path, each.config.backend, each.config.options)
        for number, each in enumerate(entries)
    ]
    with work.study.phase(PHASE, f"{len(entries)} candidates, interleaved"):
        times = ranked(runners, work.samples_path, work.folder)
    best_ms = min(times.values(), default=0.0)
    near = [number for number, ms in times.items() if ms <= _SAME * best_ms]
    return entries[min(near, default=0)]
