"""Who takes part: makes the variants of the precision ladder and screens their candidates as they are ready."""

import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from edgeopt.bench.messages import Failed
from edgeopt.bench.rounds import latency_ms
from edgeopt.events import Progress
from edgeopt.quant.settings import QuantSettings
from edgeopt.search.messages import Made, Make
from edgeopt.search.outcome import Candidate, VariantReport
from edgeopt.search.prepare import Search
from edgeopt.search.recipes import Recipe, recipe_named
from edgeopt.search.screen import Entry, screen
from edgeopt.search.space import Settled, Space, first_candidates, neighbours
from edgeopt.search.standings import final, racing
from edgeopt.search.variants import Maker, make_all
from edgeopt.targets import runtime_space, settled_options

# Making may take this share of the time limit; racing needs the rest.
_MAKING_SHARE = 0.6
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
        limits, cpu = search.device.limits, search.device.cpu
        self.threads = limits.usable_cores if limits.usable_cores < cpu.logical_cores else None
        # Several threads on a small model run at one of two speeds, by chance: judged by those alone, a good
        # variant could be out before its runtime options are tuned.
        self.small = latency_ms(search.baseline_contender) < _SMALL_MS
        self.variants: list[VariantReport] = []
        self.entries: list[Entry] = []
        self.paths: dict[str, Path] = {}

    def gather(self) -> None:
        """Makes the variants and screens their candidates."""
        self._enter("source", self.search.settings.model, Made((), 0.0))
        waiting = list(self._wanted())
        if "cleaned" in waiting:
            waiting.remove("cleaned")
            for job, made in make_all([self.search.maker], [self._job("cleaned")], self._deadline()):
                self._ready(job, made)
        self._make([self._job(name) for name in waiting])

    def add(self, candidate: Candidate) -> Entry:
        """One more candidate of a variant that is already made, screened."""
        path = self.paths[candidate.variant]
        entry = screen(self.search.course, candidate, path, _LONGEST_LOAD_S)
        if entry.status == "failed" and "shapes" in candidate.options:
            # Not every model that runs with open shapes can be compiled with the data's own.
            rest = {k: v for k, v in candidate.options.items() if k != "shapes"}
            entry = screen(
                self.search.course, msgspec.structs.replace(candidate, options=rest), path, _LONGEST_LOAD_S
            )
        self.entries.append(entry)
        self.search.emit(racing(entry) if entry.contender is not None else final(entry))
        return entry

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

    def _make(self, jobs: list[Make]) -> None:
        second = [Maker(self.search.folder) for _ in range(min(_MAKERS, len(jobs)) - 1)]
        try:
            for job, made in make_all([self.search.maker, *second], jobs, self._deadline()):
                self._ready(job, made)
        finally:
            for maker in second:
                maker.close()

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

    def _job(self, name: str) -> Make:
        search, split = self.search, self.search.course.split
        out = search.folder / "variants" / name / recipe_named(name).file
        out.parent.mkdir(parents=True)
        quantization = msgspec.convert(msgspec.to_builtins(search.profile.quantization), QuantSettings)
        passes = search.profile.graph.passes
        return Make(
            recipe=name,
            source_path=str(search.settings.model.absolute()),
            base_path=str(self.paths.get("cleaned", search.settings.model.absolute())),
            out_path=str(out),
            samples_path=str(search.course.samples_path),
            check_first=split.check_first,
            check_count=split.check_count,
            calibration_count=split.calibration_count,
            settings=quantization,
            transformer=search.facts.transformer,
            passes=None if isinstance(passes, str) else passes,
        )

    def _ready(self, job: Make, made: Made | Failed) -> None:
        if isinstance(made, Failed):
            title = recipe_named(job.recipe).title
            self.variants.append(VariantReport(job.recipe, title, failure=made.message))
        else:
            self._enter(job.recipe, Path(job.out_path), made)

    def _enter(self, name: str, path: Path, made: Made) -> None:
        self.paths[name] = path
        files = path.parent.glob("*") if name != "source" else [path]
        size = self.search.facts.size_bytes if name == "source" else sum(f.stat().st_size for f in files)
        self.variants.append(VariantReport(name, recipe_named(name).title, size, made.seconds, ledger=made.ledger))
        for candidate in first_candidates(
            name, self.search.profile.backends.order, self.space, self.shapes, self.threads, self.settled
        ):
            self.search.emit(Progress("screening", candidate.name, time_left_s=self._left()))
            entry = self.add(candidate)
            if entry.contender is not None and self.small and not self.full:
                for other in neighbours(candidate, self.space, only="threads"):
                    self.add(other)

    def _left(self) -> float:
        return max(0.0, self.search.until(1.0) - time.monotonic())


def _why_not(recipe: Recipe, search: Search) -> str | None:
    if recipe.needs_data and not search.given:
        return "needs data to calibrate or to check it: give some with --data"
    if recipe.needs_data and not search.course.split.calibration_count:
        return "too few samples to calibrate and check apart"
    if recipe.only_transformers and not search.facts.transformer:
        return "the model has no attention"
    missing = [package for package in recipe.needs if importlib.util.find_spec(package) is None]
    return f"the Python package '{missing[0]}' is not installed" if missing else None


def _static_shapes(search: Search) -> dict[str, list[int]] | None:
    """The shapes of the data where the model leaves them open: runtimes are faster when they know them."""
    dynamic = any(not isinstance(d, int) for i in search.facts.inputs for d in i.shape)
    return search.samples.shapes() if dynamic else None
