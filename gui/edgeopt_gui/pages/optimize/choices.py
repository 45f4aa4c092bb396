"""The user's choices for a search, and the resulting command line."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from edgeopt.data.judging.goals import BUDGETS_DB
from edgeopt.options import DAY_S, arguments, option_named
from edgeopt.pipeline.request import OptimizeRequest as Search
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.settings import Settings

OWN, METRIC = "own", "metric"
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
class Choices:
    """The choices; optional numbers are stored as typed, so that a problem is shown beside its field."""

    budget: str = "transparent"
    own_db: float = 40.0
    target: str = ""
    """Name of the target; "" lets edgeopt choose."""
    time_limit_s: int | None = None
    """Time limit in seconds; None lets edgeopt choose it by the size of the model."""
    metric: str = "top1"
    function: str = ""
    value: str = ""
    """Limit of the metric: a minimum, or a maximum for metrics where less is better."""
    max_drop: str = ""
    accept_unproven_drop: bool = False
    labels: str = ""
    objective: str = LATENCY
    max_memory_mib: str = ""
    max_size_mib: str = ""
    max_latency_ms: str = ""
    target_speedup: str = ""
    single_file: bool = False
    plugins: bool = True
    on: str = ""
    """Address of the device to measure on; "" for this one."""

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
        if self.budget == METRIC:
            request |= {name: getattr(self, name) for name in _OF_METRIC} | {"metric": self.metric_name}
        request |= {
            "model": model,
            "out": out,
            "data": data,
            "baseline": today,
            "shape": shape,
            "floor": self.floor,
        }
        request |= {
            "pre": pre,
            "objective": self.objective if self.objective != LATENCY else "",
            "fresh": fresh,
            "pick": pick,
        }
        words = ("optimize", *arguments(Search, request), *(("--on", self.on) if self.on else ()))
        return Command(f"{'Delivering' if pick else 'Optimizing'} {model.name}", words)

    def for_plan(self, model: Path, data: Path | None, out: Path, record: Path) -> tuple[str, ...]:
        """Returns the arguments of a plan for a record; it measures nothing, so only the floor is kept."""
        kept = Choices(self.budget, self.own_db, self.target, single_file=self.single_file)
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
_TEXTS = tuple(each.name for each in fields(Choices) if each.type is str and each.name != "budget")
_AS_THEY_ARE = tuple(
    each.name for each in fields(Choices)
    if each.name in Search.__struct_fields__ and each.name not in {"metric", *_OF_METRIC}
)  # fmt: skip
"""Names of the choices that are passed to the search unchanged."""


def remembered(settings: Settings) -> Choices:
    """Returns the choices of the last time; invalid ones are replaced by the defaults."""
    usual = Choices()
    budget = settings.text("optimize.budget", usual.budget)
    known = budget in {each.key for each in BUDGETS}
    own_db = settings.number("optimize.own-db", usual.own_db)
    limit_s = int(settings.number("optimize.time-limit-s", 0))
    texts: dict[str, Any] = {name: settings.text(_key(name), getattr(usual, name)) for name in _TEXTS}
    return Choices(
        budget=budget if known else usual.budget,
        own_db=own_db if 0 < own_db <= 150 else usual.own_db,
        time_limit_s=limit_s if SHORTEST_LIMIT_S <= limit_s <= LONGEST_LIMIT_S else None,
        single_file=settings.flag("optimize.single-file"),
        plugins=settings.flag("optimize.plugins", True),
        accept_unproven_drop=settings.flag("optimize.accept-unproven-drop"),
        **texts,
    )


def remember(settings: Settings, choices: Choices) -> None:
    settings.keep("optimize.budget", choices.budget)
    settings.keep("optimize.own-db", choices.own_db)
    settings.keep("optimize.time-limit-s", choices.time_limit_s or 0)
    settings.keep("optimize.single-file", choices.single_file)
    settings.keep("optimize.accept-unproven-drop", choices.accept_unproven_drop)
    settings.keep("optimize.plugins", choices.plugins)
    for name in _TEXTS:
        settings.keep(_key(name), getattr(choices, name))


def _key(name: str) -> str:
    return f"optimize.{name.replace('_', '-')}"
