"""The core's vocabulary for the settings of a search, and checks of the user's choices.

Importing it loads numpy and the search, so a background thread imports it after the first window.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from edgeopt.commands.export.export import FORMATS
from edgeopt.data.judging.goals import goal_from
from edgeopt.data.judging.metrics import METRICS
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.pipeline.objectives import OBJECTIVES, limits_from
from edgeopt.pipeline.request import checked_target
from edgeopt.plugins import installed_plugins
from edgeopt.remote.address import read_address
from edgeopt_gui.pages.optimize.choices import METRIC, OWN_FUNCTION, AccuracyChoices, Choices
from edgeopt_gui.pages.optimize.in_the_app import in_the_app


@dataclass(frozen=True, slots=True)
class TitledChoice:
    """A choice: its name and its title on the screen."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class MetricChoice:
    name: str
    title: str
    smaller_is_better: bool
    needs_labels: bool
    takes_drop: bool
    example: str
    """Example of the metric's value."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    objectives: tuple[TitledChoice, ...]
    metrics: tuple[MetricChoice, ...]
    """Metrics of the task, without the ratio in dB, which the budgets cover."""
    formats: tuple[TitledChoice, ...]
    """Formats of `edgeopt export`."""
    plugins: tuple[str, ...]
    """Installed plug-ins with their versions and states."""


@dataclass(frozen=True, slots=True)
class Problems:
    """The problem of each group of fields, as a sentence; "" if there is none."""

    accuracy: str = ""
    limits: str = ""
    speedup: str = ""
    place: str = ""
    """Problem with the address of the device to measure on."""

    @property
    def first(self) -> str:
        return self.accuracy or self.limits or self.speedup or self.place


def vocabulary() -> Vocabulary:
    return Vocabulary(
        tuple(TitledChoice(each.name, _capital(each.title)) for each in OBJECTIVES),
        tuple(
            MetricChoice(
                each.name,
                _capital(each.title),
                each.smaller_is_better,
                each.needs_labels,
                each.has_source or each.unit == "%",
                "99%" if each.unit == "%" else "0.01" if each.smaller_is_better else "0.99",
            )
            for each in METRICS
            if each.name != "snr"
        ),
        tuple(TitledChoice(each.name, each.title) for each in FORMATS),
        tuple(f"{each.name} {each.version}: {each.state}" for each in installed_plugins()),
    )


def problems(choices: Choices) -> Problems:
    return Problems(
        accuracy_problem(choices),
        _problem_of(lambda: _check_limits(choices)),
        _problem_of(lambda: checked_target(_number(choices.target_speedup, "2"))),
        _problem_of(lambda: read_address(choices.on) if choices.on else None),
    )


def accuracy_problem(choices: AccuracyChoices) -> str:
    """Returns the problem of the accuracy floor or the metric, as a sentence; "" if there is none."""
    return _problem_of(lambda: _check_accuracy(choices))


def _check_accuracy(choices: AccuracyChoices) -> None:
    if choices.budget != METRIC:
        return
    if choices.metric != OWN_FUNCTION:
        goal_from(choices.metric, choices.value or None, choices.max_drop or None)
    elif not all(part.strip() for part in choices.function.partition(":")):
        raise UsageError("No function is given.", "Enter file.py:function or module:function.")
    elif not choices.value and not choices.max_drop:
        # Only the search imports the function, because importing runs its code; here only its name is checked.
        raise UsageError("The metric needs a value to reach.", "Enter a value or a drop.")


def _check_limits(choices: Choices) -> None:
    limits_from(
        _number(choices.max_memory_mib, "64"),
        _number(choices.max_size_mib, "8"),
        _number(choices.max_latency_ms, "2.5"),
    )


def _number(text: str, example: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"'{text}' is not a number.", f"Enter one like {example}, or leave it empty.")
    return value


def _problem_of(check: Callable[[], object]) -> str:
    try:
        check()
    except EdgeoptError as error:
        return in_the_app(f"{error.message} {error.hint}".strip(), error.named)
    return ""


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]
