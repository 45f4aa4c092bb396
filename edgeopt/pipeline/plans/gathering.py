"""Builder of the variants of the precision levels, in parts; yields each as soon as it is ready."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Labels
from edgeopt.pipeline.builders.cleaning import LOWERINGS, NOTHING, runs_in, wrong_elsewhere
from edgeopt.pipeline.builders.messages import (
    CLEANED,
    MAPPED,
    PLANNED,
    REPAIRED,
    Made,
    Make,
    PlannedVariant,
    Planning,
    Plans,
)
from edgeopt.pipeline.builders.planning import packed
from edgeopt.pipeline.builders.variants import LATE, BuildWorker, KnownVariants, Variants, make_all
from edgeopt.pipeline.context import SearchContext
from edgeopt.pipeline.outcome import VariantReport
from edgeopt.pipeline.padding import padding_note, skips_padding
from edgeopt.pipeline.plans.libraries import repair_limit_s
from edgeopt.pipeline.plans.recipes import (
    BuildInputs,
    backends_of,
    by_base,
    job,
    jobs,
    recipe_named,
    title_of,
    why_not,
)
from edgeopt.pipeline.stopping import StopControl
from edgeopt.quant.measured.timing.configs import ExecutionConfig
from edgeopt.workers.protocol import Failed

# Making may take this share of the time before the proof; racing needs the rest.
_MAKING_SHARE = 0.74
# When the libraries' own ways must be there: a plan must beat them, and needs time for that. Of a smaller model
# they take seconds, and are waited for on a busy machine too, at the expense of the plan.
_WHOLE_SHARE, _WHOLE_BYTES = 0.44, 30_000_000
# Time for a pass or recipe of a plug-in: its share of the search, and the minimum in seconds.
_PLUGIN_SHARE, _PLUGIN_S = 0.15, 10.0
# Deadline of the plan: the variants that it replaces can still be made after that.
_PLANNING_SHARE = 0.70
# Share of the remaining time for planning: its last check and its files come after.
_PLAN_IS_READY = 0.8
_COVERED = "not made: the plan already timed this precision for every layer"
_SAVES_TIME = "not made: a plan minimizes time, and this search has another objective"
_OWN_GOAL = "not made: layers are chosen by a floor in dB, and this search has a goal of its own"
_BUILDERS = 2
# A repair ends a step after its limit, and reads and writes models besides.
_REPAIR_TAKES = 1.5


class ReadyVariant(NamedTuple):
    """Variant that can become a candidate, and its backends."""

    variant: str
    backends: tuple[str, ...]
    planned: PlannedVariant | None = None


Configs = tuple[ExecutionConfig, ...]


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """Constraints of a precision plan."""

    goal: Goal
    labels: Labels | None = None
    """Labels of all samples that calibrate or check."""


class VariantBuilder:
    """Builder of a search's variants, in parts."""

    def __init__(
        self,
        inputs: BuildInputs,
        plan: PlanTerms | None,
        variants: Variants,
        place: SearchContext,
        ending: StopControl,
        memory: KnownVariants | None = None,
    ) -> None:
        """Creates the builder; `plan` is None if time does not count; `memory` has earlier searches' variants."""
        self.variants = variants
        self._inputs, self._plan_terms = inputs, plan
        self._place, self._ending, self._memory = place, ending, memory
        self._builders = [place.builder]
        self._covered: list[str] = []

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self._recipe_names())

    @property
    def repairs(self) -> bool:
        """Whether a model that NNCF quantized may be repaired."""
        return REPAIRED in self._names

    @property
    def plans(self) -> bool:
        """Whether precisions may be planned by layer."""
        return PLANNED in self._names

    @property
    def floor_db(self) -> float | None:
        """Accuracy floor in dB; None if the goal is no ratio or time does not count."""
        goal = self._plan_terms.goal if self._plan_terms is not None else None
        return goal.target_db if goal is not None and goal.is_ratio else None

    def first_parts(self) -> Iterator[Iterator[ReadyVariant]]:
        """Yields the parts before repair and plan; take each whole before the next, which builds on it."""
        source, names = self._source(), self._names
        whole = [name for name in names if recipe_named(name).whole]
        plugins = [name for name in names if recipe_named(name).offer]
        others = {PLANNED, REPAIRED, *self._uniform(), *whole, *plugins}
        exact = self._exact([name for name in names if name not in others])
        made = ([self._by_plugins(plugins)] if plugins else []) + ([self._by_libraries(whole)] if whole else [])
        if self._inputs.has_cache:
            # The bits of its weights decide the speed, and proving rewrites of a large model takes long.
            yield from (iter((source,)), *made, exact)
        else:
            yield from (chain((source,), exact), *made)

    def uniform(self) -> Iterator[ReadyVariant]:
        """Yields the variants with one scheme for all layers, except those that the plan covers."""
        yield from self._all_of([name for name in self._uniform() if not self._is_covered(name)])

    def _uniform(self) -> list[str]:
        return [name for name in self._names if recipe_named(name).uniform]

    def only(self, name: str, configs: Configs) -> Iterator[Iterator[ReadyVariant]]:
        """Yields the parts that one variant needs, whatever a plan would cover; `configs` are those to plan."""
        names = [each for each in self._recipe_names() if each in {CLEANED, name}]
        apart = [
            e for e in names if (r := recipe_named(e)).uniform or r.whole or e in {PLANNED, REPAIRED} or r.offer
        ]
        yield chain((self._source(),), self._exact([each for each in names if each not in apart]))
        if PLANNED in apart:
            yield self.planned(configs)
        elif apart and recipe_named(apart[0]).offer:
            yield self._by_plugins(apart)
        elif apart:
            yield self.repaired(self.floor_db) if REPAIRED in apart else self._all_of(apart)

    def close(self) -> None:
        """Ends all workers that still run."""
        for builder in self._builders:
            builder.client.close()

    def _recipe_names(self) -> Iterator[str]:
        """Yields the recipes of the profile that can be made; reports each skipped one with its reason."""
        for name in self._inputs.profile.precision.ladder:
            if name == "source" or (name == MAPPED and not self._inputs.saves_memory):
                continue
            recipe = recipe_named(name)
            reason = why_not(recipe, self._inputs)
            if not reason and name in {PLANNED, REPAIRED} and self._plan_terms is None:
                reason = _SAVES_TIME
            if not reason and name == REPAIRED and self.floor_db is None:
                reason = _OWN_GOAL
            if reason:
                self.variants.report_failure(VariantReport(name, recipe.title, failure=reason))
            else:
                yield name

    def _exact(self, names: list[str]) -> Iterator[ReadyVariant]:
        if CLEANED in names:
            names.remove(CLEANED)
            for request, made in self._made([job(self._inputs, CLEANED, self._inputs.model)], _MAKING_SHARE):
                yield from self._cleaned(request, made)
                if isinstance(made, Made) and skips_padding(made.ledger):
                    self._place.notes.warn(padding_note(self._inputs.kept))
        yield from self._all_of(names)

    def _cleaned(self, request: Make, made: Made | Failed) -> Iterator[ReadyVariant]:
        """Yields the cleaned model; where a runtime computes a pass wrong, the others get a model that has it."""
        wrong = wrong_elsewhere(made.ledger) if isinstance(made, Made) else set()
        order = self._inputs.profile.backends.order
        others = tuple(name for name in order if not any(runs_in(one, (name,)) for one in wrong))
        richer = job(self._inputs, CLEANED, self._inputs.model, backends=others) if wrong and others else None
        for one, better in self._made([richer] if richer else [], _MAKING_SHARE):
            if isinstance(better, Made):
                yield from self._ready(one, better)
                rest = tuple(name for name in order if name not in others)
                if rest:
                    yield from self._ready(msgspec.structs.replace(request, backends=rest), made)
                return
        yield from self._ready(request, made)

    def _source(self) -> ReadyVariant:
        model, order = self._inputs.model, self._inputs.profile.backends.order
        report = VariantReport("source", recipe_named("source").title, self._inputs.size_bytes)
        self.variants.enter(report, model)
        return ReadyVariant("source", order)

    def _by_libraries(self, names: list[str]) -> Iterator[ReadyVariant]:
        """Yields the variants of libraries; waits for all of a small model, which may extend the search."""
        ending = self._ending
        if self._inputs.size_bytes >= _WHOLE_BYTES:
            yield from self._all_of(names, _WHOLE_SHARE)
            return
        due_s = ending.clock.until(_WHOLE_SHARE)
        max_s = max(0.0, ending.longest_s - ending.clock.limit_s)
        until_s = max(ending.clock.until(_MAKING_SHARE), due_s + max_s)
        yield from self._all_of(names, until_s=until_s)
        ending.extend(time.monotonic() - due_s, "NNCF and ONNX Runtime took long to quantize the model")

    def _by_plugins(self, names: list[str]) -> Iterator[ReadyVariant]:
        """Makes each variant in a worker of its own with its own time limit, so that a plug-in harms no other
        recipe.

        The cache is not used: its key does not cover the code of a plug-in.
        """
        limit_s = max(_PLUGIN_S, _PLUGIN_SHARE * self._ending.clock.limit_s)
        late = Failed(f"it was not ready after {limit_s:.0f} s, the limit of a plug-in", code="hung")
        for name in names:
            requests = jobs(self._inputs, name, self._base)
            own_s, until_s = time.monotonic() + limit_s, self._ending.clock.until(_MAKING_SHARE)
            worker = self._another()
            try:
                for one, made in make_all([worker], requests, min(own_s, until_s), None, self._ending.stop):
                    is_late = isinstance(made, Failed) and made.code == LATE and own_s < until_s
                    yield from self._ready(one, late if is_late else made)
            finally:
                worker.client.close()

    def repaired(self, needed_db: float | None, reason: str = "") -> Iterator[ReadyVariant]:
        """Repairs the quantized model while nothing else runs, as the attempts depend on the model's speed.

        `needed_db` is the accuracy that it must reach; None if there is nothing to repair, for the `reason`.
        """
        if needed_db is None:
            report = VariantReport(REPAIRED, recipe_named(REPAIRED).title, failure=reason)
            self.variants.report_failure(report)
            return
        base = self._base(backends_of(recipe_named(REPAIRED), self._inputs.profile)[0])
        ending, due_s = self._ending, self._ending.clock.until(_PLANNING_SHARE)
        until_s = due_s
        if self._inputs.size_bytes < _WHOLE_BYTES:
            needed_s = time.monotonic() + _REPAIR_TAKES * repair_limit_s(self._inputs.size_bytes)
            until_s = max(due_s, min(needed_s, due_s + max(0.0, ending.longest_s - ending.clock.limit_s)))
        request = job(self._inputs, REPAIRED, base, repair_floor_db=needed_db)
        for one, made in self._made([request], _PLANNING_SHARE, until_s=until_s):
            yield from self._ready(one, made)
        ending.extend(time.monotonic() - due_s, "The repair of the quantized model took long")

    def planned(self, configs: Configs) -> Iterator[ReadyVariant]:
        """Plans precisions for these configurations while nothing else runs that would disturb the timing."""
        terms, until_s = self._plan_terms, self._ending.clock.until(_PLANNING_SHARE)
        assert terms is not None  # noqa: S101 - it is wanted
        fresh = self._another()
        try:
            limit_s = _PLAN_IS_READY * (until_s - time.monotonic())
            groups = by_base((one.backend for one in configs), self._base)
            requests = []
            for base, backends in groups.items():
                mine = tuple(one for one in configs if one.backend in backends)
                labels, profile = packed(terms.labels), self._inputs.profile
                planning = Planning(mine, terms.goal, limit_s / len(groups), profile, labels)
                alone = backends if len(groups) > 1 else ()
                requests.append(job(self._inputs, PLANNED, base, planning=planning, backends=alone))
            for one, made in self._made(requests, _PLANNING_SHARE, [fresh]):
                yield from self._ready(one, made)
                if isinstance(made, Made) and made.plans is not None:
                    self._covered += made.plans.covered
        finally:
            fresh.client.close()

    def _is_covered(self, name: str) -> bool:
        """Whether a plan covers all that this recipe could give; reports it in that case."""
        recipe = recipe_named(name)
        if not {*backends_of(recipe, self._inputs.profile)} <= {*self._covered}:
            return False
        self.variants.report_failure(VariantReport(name, recipe.title, failure=_COVERED))
        return True

    def _all_of(
        self, names: list[str], share: float = _MAKING_SHARE, until_s: float | None = None
    ) -> Iterator[ReadyVariant]:
        requests = [each for name in names for each in jobs(self._inputs, name, self._base)]
        second = [self._another() for _ in range(min(_BUILDERS, len(requests)) - 1)]
        try:
            for one, made in self._made(requests, share, [self._place.builder, *second], until_s):
                yield from self._ready(one, made)
        finally:
            for builder in second:
                builder.client.close()

    def _another(self) -> BuildWorker:
        self._builders.append(BuildWorker(self._place.runner.host))
        return self._builders[-1]

    def _made(
        self,
        requests: list[Make],
        share: float,
        builders: list[BuildWorker] | None = None,
        until_s: float | None = None,
    ) -> Iterator[tuple[Make, Made | Failed]]:
        """Makes the variants until this share of the time is used up, or until `until_s`."""
        builders, until_s = builders or [self._place.builder], until_s or self._ending.clock.until(share)
        return make_all(builders, requests, until_s, self._memory, self._ending.stop)

    def _base(self, backend: str) -> Path:
        """Returns the cleaned model, or the source if there is none."""
        has = self.variants.has(CLEANED, backend)
        return self.variants.path(CLEANED, backend) if has else self._inputs.model

    def _ready(self, request: Make, made: Made | Failed) -> Iterator[ReadyVariant]:
        title = title_of(request)
        if isinstance(made, Failed):
            backends = request.backends if request.step.listed(LOWERINGS) else ()
            late = made.code == LATE
            report = VariantReport(request.recipe, title, failure=made.message, backends=backends, late=late)
            self.variants.report_failure(report)
        elif made.plans is None and not Path(request.out_path).is_file():
            self.variants.report_failure(
                VariantReport(
                    request.recipe, title, failure=NOTHING, ledger=made.ledger, backends=request.backends
                )
            )
        elif made.plans is not None:
            yield from self._ready_plans(request.recipe, title, made.plans, made.seconds)
        else:
            path, backends = Path(request.out_path), request.backends
            size = _size_bytes(path)
            report = VariantReport(
                request.recipe, title, size, made.seconds, ledger=made.ledger, backends=backends
            )
            self.variants.enter(report, path, made.step)
            yield ReadyVariant(request.recipe, backends or self._inputs.profile.backends.order)

    def _ready_plans(self, name: str, title: str, plans: Plans, seconds: float) -> Iterator[ReadyVariant]:
        if not plans.variants:
            report = VariantReport(name, title, seconds=seconds, failure=plans.reason, ledger=plans.ledger)
            self.variants.report_failure(report)
        for one in plans.variants:
            path, backends = Path(one.path), (one.backend,)
            size = _size_bytes(path)
            report = VariantReport(name, title, size, seconds, ledger=one.ledger, backends=backends)
            self.variants.enter(report, path, one.step, one.recorded)
            yield ReadyVariant(name, backends, one)


def _size_bytes(path: Path) -> int:
    """Returns the size of a model with all files beside it, as a bundle takes all of them."""
    return sum(file.stat().st_size for file in path.parent.glob("*"))
