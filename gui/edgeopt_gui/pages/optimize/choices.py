"""The user's choices for a search, and the resulting command line."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from edgeopt.data.judging.goals import BUDGETS_DB
from edgeopt.options import DAY_S, arguments, option_named
from edgeopt.pipeline.request import OptimizeRequest as Search
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.settings import Settings

OWN, METRIC = "own", "metric"
MINIMUM_DB, MAXIMUM_DB = 1.0, 150.0
OWN_FUNCTION = "function"
"""Instead of a metric's name: the user's own function, named in `function`."""
LATENCY = str(option_named(Search, "objective").default)
SHORTEST_LIMIT_S = int(option_named(Search, "time_limit_s").minimum or 1)
LONGEST_LIMIT_S = int(option_named(Search, "time_limit_s").maximum or DAY_S)


@dataclass(frozen=True, slots=True)
class Budget:
    """One way to say how much the outputs may differ from the source model's."""

    key: str
    title: str
    sentence: str


BUDGETS = (
    Budget(
        "exact",
        f"Exact ({BUDGETS_DB['exact']:g} dB)",
        "The same outputs except for rounding: exact rewrites, no lower precision.",
    ),
    Budget(
        "transparent",
        f"Transparent ({BUDGETS_DB['transparent']:g} dB)",
        "Differences too small to notice; right for most models.",
    ),
    Budget(
        "balanced",
        f"Balanced ({BUDGETS_DB['balanced']:g} dB)",
        "Small differences for more speed; check your own metric after.",
    ),
    Budget(OWN, "Your own floor", "Outputs keep at least this signal-to-noise ratio."),
    Budget(METRIC, "A metric", "Answers are checked with a metric of the task on your data."),
)


@dataclass(frozen=True, slots=True)
class Limit:
    """An option of a search with a number, in the form."""

    name: str
    title: str
    spoken: str
    """Name for screen readers, with the unit."""
    unit: str
    summary: str
    """Text for the summary of the folded settings; `{}` is the value."""
    ends: bool = False
    """Whether reaching the value ends the search, instead of rejecting candidates."""


LIMITS = (
    Limit(
        *("max_memory_mib", "Memory at most", "Peak memory of the process at most, in MiB", "MiB"),
        "memory at most {} MiB",
    ),
    Limit(
        *("max_size_mib", "Files at most", "Size of the model's files at most, in MiB", "MiB"),
        "files at most {} MiB",
    ),
    Limit(
        *("max_latency_ms", "A run at most", "Median latency of a run at most, in milliseconds", "ms"),
        "a run at most {} ms",
    ),
    Limit(
        *("target_speedup", "Enough at", "Stops the search at this speed-up", "times the speed"),
        "stops at {} times the speed",
        ends=True,
    ),
)


@dataclass(frozen=True, slots=True)
class AccuracyChoices:
    """The accuracy floor, or a metric with its limits, of a search or a plan of precision.

    Optional numbers are stored as typed, so that a problem is shown beside its field.
    """

    budget: str = "transparent"
    own_db: float = 40.0
    metric: str = "top1"
    function: str = ""
    value: str = ""
    """Limit of the metric: a minimum, or a maximum for metrics where less is better."""
    max_drop: str = ""
    accept_unproven_drop: bool = False
    labels: str = ""

    @property
    def floor(self) -> str:
        """The accuracy floor as `--floor` takes it."""
        if self.budget == METRIC:
            return self.value
        return f"{self.own_db:g}dB" if self.budget == OWN else self.budget

    @property
    def metric_name(self) -> str | None:
        """The metric as `--metric` takes it; None for the ratio in dB."""
        if self.budget != METRIC:
            return None
        return self.function if self.metric == OWN_FUNCTION else self.metric

    def request(self) -> dict[str, object]:
        """Returns the values of the options that the choices set."""
        if self.budget != METRIC:
            return {"floor": self.floor}
        named: dict[str, object] = {name: getattr(self, name) for name in _OF_METRIC}
        return {**named, "floor": self.floor, "metric": self.metric_name}


@dataclass(frozen=True, slots=True)
class Choices(AccuracyChoices):
    """The choices of a search."""

    target: str = ""
    """Name of the target; "" lets edgeopt choose."""
    time_limit_s: int | None = None
    """Time limit in seconds; None lets edgeopt choose it by the size of the model."""
    objective: str = LATENCY
    max_memory_mib: str = ""
    max_size_mib: str = ""
    max_latency_ms: str = ""
    target_speedup: str = ""
    single_file: bool = False
    plugins: bool = True
    on: str = ""
    """Address of the device to measure on; "" for this one."""

    def command(  # noqa: PLR0913 - all but the first three are optional and given by name
        self,
        model: Path,
        data: Path | None,
        out: Path,
        *,
        today: Path | None = None,
        shape: tuple[str, ...] = (),
        pre: Path | None = None,
        fresh: bool = False,
        pick: str = "",
    ) -> Command:
        """`today` is what runs today, `shape` the sizes of open dimensions, `pre` the preprocessing.

        With `pick` a candidate of the same search, done before, is delivered.
        """
        request: dict[str, object] = {name: getattr(self, name) for name in _AS_THEY_ARE}
        request |= self.request()
        request |= {
            "model": model,
            "out": out,
            "data": data,
            "baseline": today,
            "shape": shape,
            "pre": pre,
            "objective": self.objective if self.objective != LATENCY else "",
            "fresh": fresh,
            "pick": pick,
        }
        words = ("optimize", *arguments(Search, request), *(("--on", self.on) if self.on else ()))
        return Command(f"{'Delivering' if pick else 'Optimizing'} {model.name}", words)

    def for_plan(self, model: Path, data: Path | None, out: Path, record: Path) -> tuple[str, ...]:
        """Returns the arguments of a plan for a record; it measures nothing, so only the floor is kept."""
        kept = Choices(self.budget, self.own_db, target=self.target, single_file=self.single_file)
        return (*kept.command(model, data, out).arguments, "--device", str(record))

    def folded(self) -> str:
        """Returns a short summary of the folded settings that differ from their defaults."""
        parts = [
            *(each.summary.format(value) for each in LIMITS if (value := getattr(self, each.name))),
            f"measured on {self.on}" if self.on else "",
            f"target {self.target}" if self.target else "",
            "saved as one file" if self.single_file else "",
            "" if self.plugins else "without plug-ins",
        ]
        return ", ".join(part for part in parts if part)


_OF_METRIC = ("max_drop", "accept_unproven_drop", "labels")
_TEXTS = tuple(
    each.name for each in fields(Choices)
    if each.type is str and each.name not in AccuracyChoices.__dataclass_fields__
)  # fmt: skip
_TEXTS_OF_ACCURACY = ("metric", "function", "value", "max_drop", "labels")
_AS_THEY_ARE = tuple(
    each.name for each in fields(Choices)
    if each.name in Search.__struct_fields__ and each.name not in AccuracyChoices.__dataclass_fields__
)  # fmt: skip
"""Names of the choices that are passed to the search unchanged."""


def remembered(settings: Settings) -> Choices:
    """Returns the choices of the last time; invalid ones are replaced by the defaults."""
    usual = Choices()
    limit_s = int(settings.number("optimize.time-limit-s", 0))
    texts: dict[str, Any] = {name: settings.text(_key(name), getattr(usual, name)) for name in _TEXTS}
    return Choices(
        **asdict(remembered_accuracy(settings, "optimize")),
        time_limit_s=limit_s if SHORTEST_LIMIT_S <= limit_s <= LONGEST_LIMIT_S else None,
        single_file=settings.flag("optimize.single-file"),
        plugins=settings.flag("optimize.plugins", True),
        **texts,
    )


def remember(settings: Settings, choices: Choices) -> None:
    remember_accuracy(settings, "optimize", choices)
    settings.keep("optimize.time-limit-s", choices.time_limit_s or 0)
    settings.keep("optimize.single-file", choices.single_file)
    settings.keep("optimize.plugins", choices.plugins)
    for name in _TEXTS:
        settings.keep(_key(name), getattr(choices, name))


def remembered_accuracy(settings: Settings, page: str) -> AccuracyChoices:
    """Returns the accuracy that was chosen last on a page; invalid values are replaced by the defaults."""
    usual = AccuracyChoices()
    budget = settings.text(f"{page}.budget", usual.budget)
    own_db = settings.number(f"{page}.own-db", usual.own_db)
    texts: dict[str, Any] = {
        name: settings.text(_key(name, page), getattr(usual, name)) for name in _TEXTS_OF_ACCURACY
    }
    return AccuracyChoices(
        budget=budget if budget in {each.key for each in BUDGETS} else usual.budget,
        own_db=own_db if MINIMUM_DB <= own_db <= MAXIMUM_DB else usual.own_db,
        accept_unproven_drop=settings.flag(f"{page}.accept-unproven-drop"),
        **texts,
    )


def remember_accuracy(settings: Settings, page: str, choices: AccuracyChoices) -> None:
    for name in AccuracyChoices.__dataclass_fields__:
        settings.keep(_key(name, page), getattr(choices, name))


def _key(name: str, page: str = "optimize") -> str:
    return f"{page}.{name.replace('_', '-')}"
