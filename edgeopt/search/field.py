"""Who takes part: makes the variants of the precision ladder and screens their candidates as they are ready."""

import importlib.util
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from edgeopt.bench.processes.failed import Failed
from edgeopt.bench.rounds import latency_ms
from edgeopt.errors import TrialError
from edgeopt.events import Progress
from edgeopt.quant.settings import QuantSettings
from edgeopt.quantizing.timing.courses import Course, backends_for
from edgeopt.search.limits import OVER, excess
from edgeopt.search.making.lowering import NONE_LISTED, Lowered, lowered_variants
from edgeopt.search.making.messages import Made, Make
from edgeopt.search.making.plans import Planned, Planning, Plans
from edgeopt.search.making.recipes import PLANNED, Recipe, recipe_named
from edgeopt.search.making.studying import packed
from edgeopt.search.making.variants import Maker, make_all
from edgeopt.search.outcome import Candidate, VariantReport
from edgeopt.search.padding import graph_passes, kept_by, said_of, skips_padding
from edgeopt.search.prepare import Search
from edgeopt.search.racing.callers import at_first
from edgeopt.search.racing.screen import Entry, screen
from edgeopt.search.racing.space import Settled, Space, first_candidates, other_threads
from edgeopt.search.racing.standings import final, racing
from edgeopt.search.shapes.bucketing import NO_BUCKETS, with_buckets
from edgeopt.search.shapes.fill_from import settle_filling
from edgeopt.search.stopping import takes_part
from edgeopt.targets import runtime_space, settled_options

# Making may take this share of the time limit; racing needs the rest.
_MAKING_SHARE = 0.58
# Of the time limit, when the plan must be there: what it replaces can still be made after that.
_PLANNING_SHARE = 0.53
# Of the time until then, what planning is told to take: its last check and its files come after.
_PLAN_IS_READY = 0.8
_COVERED = "not made: the plan has timed this precision for every layer"
_SAVES_TIME = "not made: a plan saves time, and something else is to be least here"
_MAKERS = 2
_LONGEST_LOAD_S = 60.0
_SMALL_MS = 2.0


class Field:
    """The variants made so far, and every candidate of theirs, in the race or out of it."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.space: Space = runtime_space(search.profile, search.device)
        self.settled: Settled = settled_options(search.profile, search.device)
        self.shapes = _static_shapes(search)
        self.kept = kept_by(search)
        """Of the places in the data, the share that is no padding."""
        self.passes = graph_passes(search.profile, self.kept)
        limits, cpu = search.device.limits, search.device.cpu
        self.threads = limits.usable_cores if limits.usable_cores < cpu.logical_cores else None
        # Several threads on a small model run at one of two speeds, by chance: judged by those alone, a good
        # variant could be out before its runtime options are tuned.
        self.small = latency_ms(search.baseline_contender) < _SMALL_MS
        self.screening = True
        """Without it, variants are made and nobody takes part."""
        self.variants: list[VariantReport] = []
        self.entries: list[Entry] = []
        self.paths: dict[tuple[str, str], Path] = {}
        """By variant, and by backend where it is made for that alone."""
        self.quantized: dict[tuple[str, str], Planned] = {}
        """By variant and backend, what gave layers forms."""

    def gather(self) -> Iterator[None]:
        """Makes the variants and screens their candidates, and gives way after each part of them."""
        self._enter("source", self.search.settings.model, Made((), 0.0))
        waiting = list(self._wanted())
        if "cleaned" in waiting:
            waiting.remove("cleaned")
            for job, made in self._made([self.search.maker], [self._job("cleaned")], self._deadline()):
                self._ready(job, made)
                if isinstance(made, Made) and skips_padding(made.ledger):
                    self.search.warn(said_of(self.kept))
        if PLANNED in waiting and not self.search.objective.of_time:
            waiting.remove(PLANNED)
            title = recipe_named(PLANNED).title
            self.variants.append(VariantReport(PLANNED, title, failure=_SAVES_TIME))
        uniform = [name for name in waiting if recipe_named(name).uniform]
        exact = [name for name in waiting if name != PLANNED and name not in uniform]
        self._make([job for name in exact for job in self._jobs(name)])
        yield
        covered: frozenset[str] = frozenset()
        if PLANNED in waiting:
            covered = self._plan()
            yield
        self._make([self._job(name) for name in uniform if not self._is_covered(name, covered)])

    def add(self, candidate: Candidate) -> Entry:
        """One more candidate of a variant that is already made, screened."""
        path = self.path_of(candidate)
        entry = screen(self.search.course, candidate, path, _LONGEST_LOAD_S)
        if entry.status == "failed" and "shapes" in candidate.options and "buckets" not in candidate.options:
            # Not every model that runs with open shapes can be compiled with the data's own.
            rest = {k: v for k, v in candidate.options.items() if k != "shapes"}
            entry = screen(
                self.search.course, msgspec.structs.replace(candidate, options=rest), path, _LONGEST_LOAD_S
            )
        entry.size_bytes = self._size_bytes(candidate)
        if entry.contender is not None:
            over = excess(self.search.settings.limits, entry.contender.memory, entry.size_bytes)
            if over:
                entry.leave(OVER, over)
        self.entries.append(entry)
        if entry.contender is not None and candidate != self.search.baseline:
            takes_part(self.search.stop)
        self.search.emit(racing(entry) if entry.contender is not None else final(entry))
        return entry

    def add_bucketed(self, best: Sequence[Entry], most: int) -> list[Entry]:
        """The first few that can have a program for each size that was asked for, with these."""
        shaped = self.search.shaped
        if shaped is None:
            return []
        able = next((e.candidate for e in best if "shapes" in e.candidate.options), None)
        if able is not None:
            settle_filling(self.search, shaped, able, self.search.course.host.put(self.path_of(able)))
        found = with_buckets(shaped, [entry.candidate for entry in best], most)
        if not found:
            self.search.tell(NO_BUCKETS)
        return [self.add(one) for one in found if one not in self.candidates]

    def _size_bytes(self, candidate: Candidate) -> int | None:
        mine = [v for v in self.variants if v.name == candidate.variant]
        fitting = [v for v in mine if not v.backends or candidate.backend in v.backends]
        return next((v.size_bytes for v in fitting if v.size_bytes is not None), None)

    def path_of(self, candidate: Candidate) -> Path:
        """The file that a candidate runs."""
        own = self.paths.get((candidate.variant, candidate.backend))
        return own or self.paths[candidate.variant, ""]

    @property
    def full(self) -> bool:
        """As many as the profile allows take part: no more are added but the first of each variant."""
        return len(self.entries) >= self.search.profile.search.max_candidates

    @property
    def candidates(self) -> list[Candidate]:
        """All that were screened."""
        return [entry.candidate for entry in self.entries]

    def close(self) -> None:
        """Ends every trial that still runs."""
        for entry in self.entries:
            if entry.contender is not None:
                entry.contender.close()

    def _plan(self) -> frozenset[str]:
        """Makes the planned variants, with nothing beside that would disturb their timing.

        Returns the backends that were looked at.
        """
        until = self.search.until(_PLANNING_SHARE)
        maker = Maker(self.search.course.host)
        try:
            job = self._job(PLANNED, planning=self._planning(until))
            for _, made in self._made([maker], [job], until):
                self._ready(job, made)
                if isinstance(made, Made) and made.plans is not None:
                    return frozenset(made.plans.covered)
        finally:
            maker.close()
        return frozenset()

    def _planning(self, until: float) -> Planning:
        search = self.search
        firsts = first_candidates(
            PLANNED, search.profile.backends.order, self.space, self.shapes, self.threads, self.settled
        )
        here = backends_for("", search.profile)
        # The quickest in floats first: where time is short, the others are left out.
        firsts = sorted((one for one in firsts if one.backend in here), key=self._floats_ms)
        courses = tuple(Course(one.backend, dict(one.options)) for one in firsts)
        limit_s = _PLAN_IS_READY * (until - time.monotonic())
        labels = search.course.labels_of(0, search.course.split.prove_first)
        return Planning(courses, search.settings.goal, limit_s, search.profile, packed(labels))

    def _floats_ms(self, planned: Candidate) -> float:
        """The quickest exact variant with the options of a plan; infinite where none runs well enough."""
        found = math.inf
        for entry in self.entries:
            one = entry.candidate
            alike = (one.backend, one.options) == (planned.backend, planned.options)
            if alike and entry.contender is not None:
                with suppress(TrialError):
                    found = min(found, latency_ms(entry.contender))
        return found

    def _is_covered(self, name: str, covered: frozenset[str]) -> bool:
        """Whether a plan looked at all that this recipe could give; then that is reported."""
        recipe = recipe_named(name)
        if not set(_backends(recipe, self.search)) <= covered:
            return False
        self.variants.append(VariantReport(name, recipe.title, failure=_COVERED))
        return True

    def _make(self, jobs: list[Make]) -> None:
        second = [Maker(self.search.course.host) for _ in range(min(_MAKERS, len(jobs)) - 1)]
        try:
            for job, made in self._made([self.search.maker, *second], jobs, self._deadline()):
                self._ready(job, made)
        finally:
            for maker in second:
                maker.close()

    def _made(self, makers: list[Maker], jobs: list[Make], until: float) -> Iterator[tuple[Make, Made | Failed]]:
        return make_all(makers, jobs, until, self.search.memory, self.search.stop)

    def _deadline(self) -> float:
        return self.search.until(_MAKING_SHARE)

    def _wanted(self) -> Iterator[str]:
        """The rest of the ladder; what is left out is reported with its reason."""
        for name in self.search.profile.precision.ladder:
            recipe = recipe_named(name)
            reason = _why_not(recipe, self.search)
            if name == "source":
                continue
            if reason:
                self.variants.append(VariantReport(name, recipe.title, failure=reason))
            else:
                yield name

    def _jobs(self, name: str) -> list[Make]:
        """One, but where a recipe is made for each backend apart."""
        if not recipe_named(name).by_backend:
            return [self._job(name)]
        return [self._job(name, one) for one in lowered_variants(self.search.profile)]

    def _job(self, name: str, lowered: Lowered | None = None, planning: Planning | None = None) -> Make:
        search, split, recipe = self.search, self.search.course.split, recipe_named(name)
        folder = search.folder / "variants" / name
        out = (folder / lowered.backends[0] if lowered else folder) / recipe.file
        out.parent.mkdir(parents=True)
        quantization = msgspec.convert(msgspec.to_builtins(search.profile.quantization), QuantSettings)
        return Make(
            recipe=name,
            source_path=str(search.settings.model.absolute()),
            base_path=str(self.paths.get(("cleaned", ""), search.settings.model.absolute())),
            out_path=str(out),
            samples_path=str(search.making_path),
            check_first=split.check_first,
            check_count=split.check_count,
            calibration_count=split.calibration_count,
            settings=quantization,
            passes=self.passes if name == "cleaned" else None,
            backends=lowered.backends if lowered else _backends(recipe, search) if recipe.uniform else (),
            lowerings=lowered.lowerings if lowered else (),
            planning=planning,
        )

    def _ready(self, job: Make, made: Made | Failed) -> None:
        if isinstance(made, Failed):
            self.variants.append(
                VariantReport(
                    job.recipe, _title(job), failure=made.message, backends=job.backends if job.lowerings else ()
                )
            )
        elif made.plans is not None:
            self._enter_plans(job.recipe, made.plans, made.seconds)
        else:
            self._enter(job.recipe, Path(job.out_path), made, job)

    def _enter_plans(self, name: str, plans: Plans, seconds: float) -> None:
        title = recipe_named(name).title
        if not plans.variants:
            found = VariantReport(name, title, seconds=seconds, failure=plans.reason, ledger=plans.ledger)
            self.variants.append(found)
        for one in plans.variants:
            path = Path(one.path)
            self.paths[name, one.backend] = path
            self.quantized[name, one.backend] = one
            size = sum(file.stat().st_size for file in path.parent.iterdir())
            backends = (one.backend,)
            self.variants.append(VariantReport(name, title, size, seconds, ledger=one.ledger, backends=backends))
            for candidate in self._candidates(name, one):
                self._screen(candidate)

    def _candidates(self, name: str, one: Planned) -> list[Candidate]:
        """A plan holds with its own options alone; a form is tried with each that changes its numbers."""
        if name == PLANNED:
            return [Candidate(name, one.backend, dict(one.options))]
        found = first_candidates(name, (one.backend,), self.space, self.shapes, self.threads, self.settled)
        return [msgspec.structs.replace(each, options={**each.options, **one.options}) for each in found]

    def _enter(self, name: str, path: Path, made: Made, job: Make | None = None) -> None:
        backends = job.backends if job else ()
        title = _title(job) if job else recipe_named(name).title
        self.paths.update({(name, backend): path for backend in backends or ("",)})
        files = path.parent.glob("*") if name != "source" else [path]
        size = self.search.facts.size_bytes if name == "source" else sum(f.stat().st_size for f in files)
        self.variants.append(VariantReport(name, title, size, made.seconds, ledger=made.ledger, backends=backends))
        order = backends or self.search.profile.backends.order
        if name == "source" and self.search.room is not None and self.screening:
            self.add(self.search.baseline)
        for candidate in first_candidates(name, order, self.space, self.shapes, self.threads, self.settled):
            self._screen(candidate)

    def _screen(self, candidate: Candidate) -> None:
        if not self.screening or self.search.stop.is_set():
            return
        candidate = at_first(candidate, self.search.room)
        self.search.emit(Progress("screening", candidate.name, time_left_s=self._left()))
        entry = self.add(candidate)
        if entry.contender is not None and self.small and not self.full and self.search.room is None:
            for other in other_threads(candidate, self.space):
                self.add(other)

    def _left(self) -> float:
        return max(0.0, self.search.until(1.0) - time.monotonic())


def _backends(recipe: Recipe, search: Search) -> tuple[str, ...]:
    """Those that the recipe is for and the profile knows."""
    return tuple(name for name in search.profile.backends.order if name in recipe.backends)


def _why_not(recipe: Recipe, search: Search) -> str | None:
    if recipe.needs_data and not search.given:
        return "needs data to calibrate or to check it"
    if recipe.needs_data and not search.course.split.calibration_count:
        return "too few samples to calibrate and check apart"
    if recipe.by_backend and not lowered_variants(search.profile):
        return NONE_LISTED
    if not _backends(recipe, search):
        return "no backend of the profile computes it faster than floats"
    missing = [package for package in recipe.needs if importlib.util.find_spec(package) is None]
    return f"the Python package '{missing[0]}' is not installed" if missing else None


def _title(job: Make) -> str:
    return Lowered(job.backends, job.lowerings).title if job.lowerings else recipe_named(job.recipe).title


def _static_shapes(search: Search) -> dict[str, list[int]] | None:
    """The shapes of the data where the model leaves them open: runtimes are faster when they know them."""
    dynamic = any(not isinstance(d, int) for i in search.facts.inputs for d in i.shape)
    return search.samples.shapes() if dynamic else None
