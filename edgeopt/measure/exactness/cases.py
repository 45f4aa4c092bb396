"""The source's answers in each regime, and their comparison with those of a rewritten model."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from edgeopt.data.regimes import DistributionCase
from edgeopt.errors import DiskFullError, EdgeoptError
from edgeopt.graph.accuracy import flat
from edgeopt.measure.exactness.rounding import difference, excess, moved_feeds
from edgeopt.measure.exactness.runtimes import OpenedModel

if TYPE_CHECKING:
    from edgeopt.backends.base import Backend

TIME_LIMIT_S = 10.0
"""Time limit for the source's answers in all regimes; a large model is compared in those that ran in time."""
MOST_ORDINARY = 4
"""Largest number of ordinary samples that the source runs again to find the effect of rounding."""
PLAIN: Mapping[str, Mapping[str, str]] = {"onnxruntime-cpu": {"graph_level": "none"}}
"""The options with which a backend leaves a graph as it is."""

_ALL_WAYS = 3

Feeds = Mapping[str, Any]
Answer = Mapping[str, Any]


@dataclass(slots=True)
class Answered:
    """A case, and the source's answer to it."""

    case: DistributionCase
    answer: Answer
    others: list[Answer] = field(default_factory=list)
    """Other answers that rounding can give for this case; computed only if a candidate's answer differs."""
    judged: Answer | None = None
    """The judging runtime's answer, in a proof that runs in another runtime."""
    overflows: bool = False
    """Whether a value inside the source overflows, so that any finite answer passes; found out on demand."""


class LeftOut(msgspec.Struct, frozen=True):
    """A regime that proves nothing of a model."""

    regime: str
    kind: Literal["fails", "not-finite", "no-time"]
    """The reason: the source fails, gives NaN or infinity where numbers are required, or ran out of time."""
    said: str = ""
    """The runtime's message if the source does not run."""


class NotCompared(msgspec.Struct, frozen=True):
    """A runtime that loads the source but cannot be used for comparison."""

    runtime: str
    why: str


def run_each(
    path: Path,
    feeds: Sequence[Feeds],
    backend: "Backend",
    options: Mapping[str, str] | None = None,
) -> "list[Answer | EdgeoptError | None]":
    """Returns a model's answer to each sample, or the error in its place.

    Raises EdgeoptError if the model does not load.
    """
    with contextlib.closing(OpenedModel(path, backend, options)) as opened:
        return _answers(opened, feeds, float("inf"))


def _answers(opened: OpenedModel, feeds: Sequence[Feeds], limit_s: float) -> "list[Answer | EdgeoptError | None]":
    """Returns an answer or error for each sample, and None for those that came after the time limit."""
    found = list[Any]()
    end = time.monotonic() + limit_s
    for sample in feeds:
        try:
            found.append(opened.run(sample) if time.monotonic() <= end else None)
        except DiskFullError:
            raise
        except EdgeoptError as error:
            found.append(error)
    return found


def answered(
    opened: OpenedModel, cases: Sequence[DistributionCase], limit_s: float = TIME_LIMIT_S
) -> tuple[list[Answered], list[LeftOut]]:
    """Returns the cases that the source answers, and the regimes without any answer with the reason."""
    answers = _answers(opened, [case.feeds for case in cases], limit_s)
    found: list[Answered] = []
    left: dict[str, LeftOut] = {}
    for case, answer in zip(cases, answers, strict=True):
        if answer is None:
            left[case.regime] = LeftOut(case.regime, "no-time")
        elif isinstance(answer, EdgeoptError):
            left[case.regime] = LeftOut(case.regime, "fails", answer.message)
        elif case.finite_only and not all_finite(answer):
            left[case.regime] = LeftOut(case.regime, "not-finite")
        else:
            found.append(Answered(case, answer))
    regimes = {one.case.regime for one in found}
    return found, [one for name, one in left.items() if name not in regimes]


def all_finite(answer: Answer) -> bool:
    import numpy as np

    return all(
        bool(np.isfinite(np.asarray(array).astype(np.float64)).all())
        for array in flat(answer).values()
        if np.asarray(array).dtype.kind not in "OUSbiu"
    )


def first_difference(
    known: Sequence[Answered],
    answers: "Sequence[Answer | EdgeoptError | None]",
    ask_others: Callable[[Sequence[Answered], bool], None],
) -> tuple[Answered, str] | None:
    """Returns the first case in which a model's answer differs, with a description; None if all agree.

    `ask_others` finds the effect of rounding on the source in some cases: first in one way, then in all.
    """
    doubtful = []
    for one, answer in zip(known, answers, strict=True):
        if isinstance(answer, EdgeoptError) or answer is None:
            return one, answer.message.rstrip(".") if answer else "it has no output"
        if _beyond_rounding(one, answer) is not None:
            doubtful.append((one, answer))
    doubtful = _farthest(doubtful)
    for thoroughly in (False, True):
        if doubtful:
            ask_others([one for one, _ in doubtful], thoroughly)
        doubtful = [(one, answer) for one, answer in doubtful if _still_differs(one, answer) is not None]
    return next(((one, str(_still_differs(one, answer))) for one, answer in doubtful), None)


def _farthest(doubtful: "list[tuple[Answered, Answer]]") -> "list[tuple[Answered, Answer]]":
    """Returns the cases in regimes and the ordinary ones that differ most, which stand for the other ones."""
    ordinary = [pair for pair in doubtful if not pair[0].case.regime]
    if len(ordinary) <= MOST_ORDINARY:
        return doubtful
    ordinary.sort(key=lambda pair: -excess(pair[0].answer, pair[1]))
    return [*ordinary[:MOST_ORDINARY], *(pair for pair in doubtful if pair[0].case.regime)]


def _still_differs(one: Answered, answer: Answer) -> str | None:
    return None if one.overflows and all_finite(answer) else _beyond_rounding(one, answer)


def _beyond_rounding(one: Answered, answer: Answer) -> str | None:
    """Describes how an answer differs, or returns None; an answer equal to the judge's for the source is right."""
    if one.judged is None:
        return difference(one.answer, answer, one.others)
    if difference(one.judged, answer) is None:
        return None
    return difference(one.answer, answer, (*one.others, one.judged))


@dataclass(frozen=True, slots=True)
class Ways:
    """Maker of other forms of the source, each written when it is first needed."""

    backend: "Backend"
    path: Path
    inside: Callable[[], Path]
    """Writes the source with its intermediate values as outputs."""
    moved: Callable[[int], Path]
    """Writes the source with its weights moved by rounding-sized steps; each number gives other steps."""


def ask_in_other_ways(ways: Ways, answers: Sequence[Answered], thoroughly: bool) -> None:
    """Runs the source again without the runtime's optimizer, and with inputs and weights moved a little."""
    plain = PLAIN.get(ways.backend.name, {})
    if not thoroughly:
        _ask(ways, [one for one in answers if not one.others], ways.moved(0), plain, 0)
        return
    again = [one for one in answers if len(one.others) < _ALL_WAYS]
    _ask(ways, again, ways.path, plain, None)
    _ask(ways, again, ways.moved(1), {}, 1)
    extreme = [one for one in again if one.case.finite_only]
    feeds = [one.case.feeds for one in extreme]
    # If the source cannot run in this form, no difference is excused.
    with contextlib.suppress(EdgeoptError):
        seen = run_each(ways.inside(), feeds, ways.backend, plain) if extreme else []
        for one, values in zip(extreme, seen, strict=True):
            one.overflows = isinstance(values, Mapping) and not all_finite(values)


def _ask(
    ways: Ways, answers: Sequence[Answered], path: Path, options: Mapping[str, str], seed: int | None
) -> None:
    """Adds a model's answers to the cases; one that does not load or run adds none, so it excuses nothing."""
    feeds = [one.case.feeds for one in answers]
    if seed is not None:
        feeds = [moved_feeds(sample, seed) for sample in feeds]
    with contextlib.suppress(EdgeoptError):
        for one, answer in zip(
            answers, run_each(path, feeds, ways.backend, options) if feeds else (), strict=True
        ):
            if answer is not None and not isinstance(answer, EdgeoptError):
                one.others.append(answer)
