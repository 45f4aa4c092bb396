"""What the user chooses for a search, and the command line that it comes to."""

from dataclasses import dataclass
from pathlib import Path

from edgeopt.judging.budgets import BUDGETS_DB
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.settings import Settings

OWN, METRIC = "own", "metric"
OWN_FUNCTION = "function"
"""In place of a metric's name: the user's own, which stands in `function`."""
LATENCY = "latency"
SHORTEST_LIMIT_S = 5
LONGEST_LIMIT_S = 86_400


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
        "The same outputs but for rounding: exact rewrites, no lower precision.",
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
    Budget(METRIC, "A metric", "Answers are held against a metric of the task, on your data."),
)


@dataclass(frozen=True, slots=True)
class Choices:
    """Numbers that may be left out are as they were typed: what is wrong with one is said beside its field."""

    budget: str = "transparent"
    own_db: float = 40.0
    target: str = ""
    """A target's name; "" leaves the choice to edgeopt."""
    time_limit_s: int | None = None
    """None leaves it to edgeopt, which goes by the model's size."""
    metric: str = "top1"
    function: str = ""
    value: str = ""
    """Of the metric: at least, or at most where less is better."""
    max_drop: str = ""
    labels: str = ""
    objective: str = LATENCY
    max_memory_mib: str = ""
    max_size_mib: str = ""
    max_latency_ms: str = ""
    target_speedup: str = ""
    single_file: bool = False

    @property
    def floor(self) -> str:
        """The accuracy floor as `--floor` takes it."""
        if self.budget == METRIC:
            return self.value
        return f"{self.own_db:g}dB" if self.budget == OWN else self.budget

    @property
    def metric_name(self) -> str | None:
        """As `--metric` takes it; None for the ratio in dB."""
        if self.budget != METRIC:
            return None
        return self.function if self.metric == OWN_FUNCTION else self.metric

    def command(
        self,
        model: Path,
        data: Path | None,
        out: Path,
        *,
        today: Path | None = None,
        shape: tuple[str, ...] = (),
        fresh: bool = False,
        pick: str = "",
    ) -> Command:
        """`today` is what runs today, `shape` the sizes of open dimensions.

        With `pick` a candidate of the same search, done before, is delivered.
        """
        arguments = ["optimize", str(model)]
        if data is not None:
            arguments += ["--data", str(data)]
        arguments += ["-o", str(out)]
        given = {
            "--metric": self.metric_name or "",
            "--floor": self.floor,
            "--max-drop": self.max_drop if self.budget == METRIC else "",
            "--labels": self.labels if self.budget == METRIC else "",
            "--objective": self.objective if self.objective != LATENCY else "",
            "--max-memory-mib": self.max_memory_mib,
            "--max-size-mib": self.max_size_mib,
            "--max-latency-ms": self.max_latency_ms,
            "--baseline": str(today) if today is not None else "",
            "--target-speedup": self.target_speedup,
            "--target": self.target,
            "--time-limit": str(self.time_limit_s) if self.time_limit_s is not None else "",
            "--pick": pick,
        }
        for option, value in given.items():
            if value:
                arguments += [option, value]
        for sizes in shape:
            arguments += ["--shape", sizes]
        arguments += ["--single-file"] if self.single_file else []
        arguments += ["--fresh"] if fresh else []
        return Command(f"{'Delivering' if pick else 'Optimizing'} {model.name}", tuple(arguments))

    def for_plan(self, model: Path, data: Path | None, out: Path, record: Path) -> tuple[str, ...]:
        """The arguments of a plan for the record's device: it measures nothing, so only the floor can hold."""
        kept = Choices(self.budget, self.own_db, self.target, single_file=self.single_file)
        return (*kept.command(model, data, out).arguments, "--device", str(record))

    def folded(self) -> str:
        """What is set of the fields that are folded away, in few words."""
        told = [
            f"memory at most {self.max_memory_mib} MiB" if self.max_memory_mib else "",
            f"files at most {self.max_size_mib} MiB" if self.max_size_mib else "",
            f"a run at most {self.max_latency_ms} ms" if self.max_latency_ms else "",
            f"ends at {self.target_speedup} times the speed" if self.target_speedup else "",
            f"target {self.target}" if self.target else "",
            "saved as one file" if self.single_file else "",
        ]
        return ", ".join(part for part in told if part)


_TEXTS = (
    "target", "metric", "function", "value", "max_drop", "labels", "objective", "max_memory_mib", "max_size_mib",
    "max_latency_ms", "target_speedup",
)  # fmt: skip


def remembered(settings: Settings) -> Choices:
    """The choices of the last time; what is not sensible any more becomes the default."""
    usual = Choices()
    budget = settings.text("optimize.budget", usual.budget)
    known = budget in {each.key for each in BUDGETS}
    own_db = settings.number("optimize.own-db", usual.own_db)
    limit_s = int(settings.number("optimize.time-limit-s", 0))

    def text(name: str) -> str:
        return settings.text(_key(name), str(getattr(usual, name)))

    return Choices(
        budget=budget if known else usual.budget,
        own_db=own_db if 0 < own_db <= 150 else usual.own_db,
        target=text("target"),
        time_limit_s=limit_s if SHORTEST_LIMIT_S <= limit_s <= LONGEST_LIMIT_S else None,
        metric=text("metric"),
        function=text("function"),
        value=text("value"),
        max_drop=text("max_drop"),
        labels=text("labels"),
        objective=text("objective"),
        max_memory_mib=text("max_memory_mib"),
        max_size_mib=text("max_size_mib"),
        max_latency_ms=text("max_latency_ms"),
        target_speedup=text("target_speedup"),
        single_file=settings.flag("optimize.single-file"),
    )


def remember(settings: Settings, choices: Choices) -> None:
    settings.keep("optimize.budget", choices.budget)
    settings.keep("optimize.own-db", choices.own_db)
    settings.keep("optimize.time-limit-s", choices.time_limit_s or 0)
    settings.keep("optimize.single-file", choices.single_file)
    for name in _TEXTS:
        settings.keep(_key(name), getattr(choices, name))


def _key(name: str) -> str:
    return f"optimize.{name.replace('_', '-')}"
