"""The accuracy goal of a result, in terms of one metric."""

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from edgeopt.errors import OptionReference, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeopt.data.judging.metric import AccuracyMetric, Judged, Labels, Outputs
    from edgeopt.graph.levels import Level, Tail, Usual

# Exact rewrites; no visible difference; one that most tasks accept; one that only a task's metric can judge.
BUDGETS_DB = {"exact": 80.0, "transparent": 30.0, "balanced": 20.0, "aggressive": 12.0}
TASK_BUDGET = "aggressive"
"""The budget that needs a metric of the model's task, because so low a ratio says nothing about its answers."""
DEFAULT_BUDGET = "transparent"
TAIL_DB = 3.0
"""Decibels that the worst tenth of samples may be below a floor in dB, which is an average over samples."""
KL, TOP1 = "kl", "top1"
TOKEN_FLOORS = {KL: 0.02, TOP1: 0.93}
"""Default goal of a decoder: largest mean Kullback-Leibler divergence, and least top-1 agreement."""
_LARGEST_BARE_DROP = 0.1
"""Largest drop accepted without a percent sign, because a larger number probably means percent."""


def floor_from(text: str, beside_metric: bool = False) -> float:
    """Returns the accuracy floor in dB from `30dB`, `30` or a budget's name."""
    name = text.strip().lower()
    if name == TASK_BUDGET and not beside_metric:
        raise UsageError(
            f"The budget '{TASK_BUDGET}' ({BUDGETS_DB[TASK_BUDGET]:g} dB) is only allowed with a task metric.",
            f"Choose balanced ({BUDGETS_DB['balanced']:g} dB), or compare answers with "
            f"labels: --metric top1-labels --max-drop 1% --floor {TASK_BUDGET}",
        )
    if name in BUDGETS_DB:
        return BUDGETS_DB[name]
    number = text.strip().lower().removesuffix("db").strip()
    try:
        floor = float(number)
    except ValueError:
        floor = float("nan")
    if not 0 < floor <= 150:
        names = ", ".join(f"{n} ({v:g} dB)" for n, v in BUDGETS_DB.items())
        raise UsageError(
            f"'{text}' is not an accuracy floor.", f"Give a ratio up to 150dB, such as 30dB, or a name: {names}."
        )
    return floor


_FLOOR, _DROP = OptionReference("floor"), OptionReference("max_drop")
ACCEPT = OptionReference("accept_unproven_drop")
EvidenceLevel = Literal["shown", "not shown", "missed"]
EVIDENCE_LEVELS: tuple[EvidenceLevel, ...] = ("shown", "not shown", "missed")
"""Levels of evidence, the best first."""


class Goal(msgspec.Struct, frozen=True):
    """A metric, and the value that it must reach on samples that nothing else has seen."""

    metric: str = "snr"
    """A name of `METRICS`, or a function of the user's: `module:function`, `file.py:function`."""
    floor: float | None = BUDGETS_DB[DEFAULT_BUDGET]
    """Least value of the metric, or the largest if less is better; None: only the drop counts, or nothing does."""
    max_drop: float | None = None
    """Largest allowed drop below the source's own value, for metrics with a value for the source."""
    floor_db: float | None = None
    """Least ratio in dB that is required in addition to the metric."""
    floor_top1: float | None = None
    """Least share of positions with the source's most likely token, in addition to the divergence `kl`."""
    budget: str = DEFAULT_BUDGET
    """Name of the budget that gave the decibels; empty if the user gave a number."""
    accept_unproven: bool = False
    """Whether counted answers that meet the goal are accepted although their interval does not prove it."""

    @property
    def is_ratio(self) -> bool:
        """Whether the metric is the ratio in dB, to which errors add up; others are known only by running."""
        return self.metric == "snr"

    @property
    def is_open(self) -> bool:
        """Whether there is no requirement, so that any outputs that can be compared are good enough."""
        return self.floor is None and self.max_drop is None and self.floor_db is None

    @property
    def target_db(self) -> float | None:
        """The required ratio in dB, as the metric or in addition to it; None if none is required."""
        return self.floor if self.is_ratio else self.floor_db

    @property
    def kind(self) -> "AccuracyMetric":
        from edgeopt.data.judging.metrics import metric_named

        return metric_named(self.metric)

    @property
    def needed(self) -> float:
        """The least score that meets the goal; see `score`."""
        if self.max_drop is not None:
            return -self.max_drop
        if self.floor is None:
            return -math.inf
        return -self.floor if self.kind.smaller_is_better else self.floor

    def judge(
        self,
        got: "Outputs",
        reference: "Outputs",
        labels: "Labels | None" = None,
        levels: "Sequence[Level]" = (),
        usual: "Usual | None" = None,
    ) -> "Judged":
        """Judges outputs by sample with the metric, and adds the ratio in dB of the weakest level."""
        from edgeopt.data.judging.metrics import judged_with_ratio

        return judged_with_ratio(self.kind, got, reference, labels, levels, usual)

    def score(self, judged: "Judged") -> tuple[float, float]:
        """Returns the value and the deciding value, on a scale where more is better and `needed` is enough.

        The deciding value is the bound by resampling, or for counted answers the value itself. Shortfalls in
        requirements beside the metric are subtracted from both.
        """
        value, low = self._value(judged), self._low(judged)
        lacks = self._lacks_beside(judged)
        if lacks > 0:
            value, low = min(value, self.needed) - lacks, min(low, self.needed) - lacks
        return value, low if self.kind.decided_by_low else value

    def met(self, judged: "Judged") -> bool:
        return not judged.problem and self.score(judged)[1] >= self.needed

    def may_meet(self, judged: "Judged") -> bool:
        """Whether a candidate may go on to its proof, whose larger sample can still decide counted answers."""
        if not self.kind.is_counted or judged.problem or self._lacks_beside(judged) > 0:
            return self.met(judged)
        best = judged.drop_low if self.max_drop is not None else judged.high
        if best is None:
            return self.met(judged)
        return (-best if self.max_drop is not None or judged.smaller_is_better else best) >= self.needed

    def evidence(self, judged: "Judged") -> EvidenceLevel:
        """Whether the samples show that the goal is met on others too, leave it open, or miss it themselves.

        Of outputs that agree with the source's to 80 dB, no interval is asked: that is rounding.
        """
        if judged.problem or self.score(judged)[0] < self.needed:
            return "missed"
        is_exact = judged.snr_db is not None and judged.snr_db >= BUDGETS_DB["exact"]
        if not self.kind.is_counted or is_exact:
            return "shown"
        has_interval = (judged.drop_high if self.max_drop is not None else judged.high) is not None
        return "shown" if has_interval and self._low(judged) >= self.needed else "not shown"

    def proves(self, judged: "Judged") -> bool:
        """Whether a result may be delivered."""
        found = self.evidence(judged)
        return found == "shown" or (found == "not shown" and self.accept_unproven)

    def describe(self, judged: "Judged") -> str:
        """Returns the metric's value with its interval, the source's value, and the drop with its interval."""
        text = f"{self.title} {self.shown(judged.value)}"
        if judged.high is not None:
            text += f" {self._interval(*sorted((judged.low, judged.high)))}"
        text += judged.tokens.words if judged.tokens is not None else ""
        if self.max_drop is None or judged.drop is None or judged.source is None:
            return text
        text += f" against {self.shown(judged.source)}, drop {self.points(judged.drop)}"
        if judged.drop_low is not None and judged.drop_high is not None:
            text += f" {self._interval(judged.drop_low, judged.drop_high)}"
        return text

    def describe_unproven(self, judged: "Judged") -> str:
        """Returns why the samples do not show that the goal is met, and how many would."""
        limit = f"floor {self.shown(self.floor or 0.0)}"
        if self.max_drop is not None:
            limit = f"limit {self.points(self.max_drop)}"
        needed = self.samples_needed(judged)
        more = f"; about {needed:,} samples that prove would show it" if needed is not None else ""
        return f"{self.describe(judged)} on {judged.samples:,} samples, {limit}: not shown{more}"

    def samples_needed(self, judged: "Judged") -> int | None:
        """Returns how many samples like these show that the goal is met, to two digits; None where none would."""
        from edgeopt.data.judging.intervals import rounded_up, samples_needed

        found: int | None
        value, low = self._value(judged), self._low(judged)
        if value <= self.needed or low >= value:
            return None
        if self.max_drop is not None and judged.changes is not None:
            found = samples_needed(*judged.changes, judged.samples, self.max_drop)
        else:
            found = math.ceil(judged.samples * ((value - low) / (value - self.needed)) ** 2)
        return None if found is None else rounded_up(found)

    def _interval(self, low: float, high: float) -> str:
        scale = 100.0 if self.kind.unit == "%" else 1.0
        return f"[{scale * low:.3g} {scale * high:.3g}]"

    def tail_lacks(self, tail: "Tail | None") -> float:
        """Returns by how many dB the worst tenth of the samples is too far below a floor in dB; 0 if it is not."""
        floor_db = self.floor if self.is_ratio else self.floor_db
        if tail is None or floor_db is None:
            return 0.0
        return max(0.0, floor_db - TAIL_DB - tail.tenth_db)

    def tail_words(self, tail: "Tail | None") -> str:
        """Describes the worst tenth of the samples if the goal is missed because of it; otherwise empty."""
        return f", the worst tenth of them {tail.tenth_db:.1f}" if tail and self.tail_lacks(tail) else ""

    def _value(self, judged: "Judged") -> float:
        if judged.problem:
            return -math.inf
        if self.max_drop is not None and judged.drop is not None:
            return -judged.drop
        return -judged.value if judged.smaller_is_better else judged.value

    def _low(self, judged: "Judged") -> float:
        if judged.problem:
            return -math.inf
        if self.max_drop is not None and judged.drop_high is not None:
            return -judged.drop_high
        return -judged.low if judged.smaller_is_better else judged.low

    def _lacks_beside(self, judged: "Judged") -> float:
        """Sums the shortfalls from the goal beside the metric: worst tenth, ratio in dB, floor beside a drop."""
        lacks = self.tail_lacks(judged.tail)
        if self.floor_db is not None and judged.low_db is not None:
            lacks += max(0.0, self.floor_db - judged.low_db)
        if self.floor_top1 is not None and judged.tokens is not None:
            lacks += max(0.0, self.floor_top1 - judged.tokens.top1)
        if self.max_drop is not None and self.floor is not None:
            sign = -1.0 if judged.smaller_is_better else 1.0
            lacks += max(0.0, sign * (self.floor - judged.value))
        return lacks

    def __str__(self) -> str:
        if self.is_open:
            return "none"
        if self.is_ratio:
            return f"at least {self.floor:g} dB" + (f" ({self.budget})" if self.budget else "")
        bound, worse = ("at most", "above") if self.kind.smaller_is_better else ("at least", "below")
        parts = []
        if self.max_drop is not None:
            parts.append(f"at most {self.points(self.max_drop)} {worse} the source's")
        if self.floor is not None:
            parts.append(f"{bound} {self.shown(self.floor)}")
        beside = f", and at least {self.floor_db:g} dB" if self.floor_db is not None else ""
        if self.floor_top1 is not None:
            beside += f", and top-1 agreement at least {100 * self.floor_top1:.4g} %"
        return f"{self.title} {' and '.join(parts)}{beside}"

    @property
    def title(self) -> str:
        return self.metric if ":" in self.metric else self.kind.title

    def shown(self, value: float) -> str:
        """Formats a value of the metric."""
        if self.is_ratio:
            from edgeopt.graph.accuracy import decibels

            return decibels(value)
        return f"{100 * value:.4g} %" if self.kind.unit == "%" else f"{value:.4g}"

    def label_warnings(self, source: "Judged", labels: "Labels | None") -> list[str]:
        """Returns warnings about labels that show a drop in part or not at all.

        `source`: the judgement of the source model by its own outputs.
        """
        if labels is None or not self.kind.needs_labels:
            return []
        found = []
        if len(labels) > 1 and labels.min() == labels.max():
            found.append(
                f"All {len(labels)} labels are of class {labels.min()}: a drop in other classes does not show. "
                "Give samples of all classes."
            )
        if source.source == 0:
            found.append(
                f"The source model has {self.title} {self.shown(0.0)}, so a drop cannot show. Check that the "
                "labels are those of the samples and classes count from 0."
            )
        return found

    def shown_score(self, score: float) -> str:
        """Formats a score as returned by `score`, without the sign for metrics where less is better."""
        if not math.isfinite(score):
            return "not comparable"
        if self.max_drop is not None:
            return self.points(score)
        return self.shown(-score if self.kind.smaller_is_better else score)

    def points(self, drop: float) -> str:
        """Formats the difference of two values, in percentage points if the metric is a share."""
        if self.kind.unit != "%":
            return f"{drop:.3g}"
        shown = f"{100 * drop:.3g}"
        return f"{shown} point{'' if shown == '1' else 's'}"


NO_FLOOR = Goal(floor=None, budget="")
"""The goal without a requirement; the ratio is still measured."""


def goal_from(
    metric: str | None = None,
    floor: str | None = None,
    max_drop: str | None = None,
    accept_unproven: bool = False,
) -> Goal:
    """Returns the goal of `--metric`, `--floor` and `--max-drop`; raises UsageError if they give none."""
    if metric == KL or (metric is None and floor is not None and "=" in floor):
        return _token_goal(floor or "", max_drop)
    if metric is None or metric == "snr":
        return _ratio_goal(floor, max_drop)
    goal = Goal(metric, None, budget="", accept_unproven=accept_unproven)
    kind = goal.kind  # complains of an unknown one first
    floors = [part.strip() for part in (floor or "").split(",") if part.strip()]
    for text in floors:
        if _is_ratio(text):
            goal = msgspec.structs.replace(
                goal, floor_db=floor_from(text, beside_metric=True), budget=_budget(text)
            )
        else:
            goal = msgspec.structs.replace(goal, floor=_within(kind, _number(text, "floor", kind), text))
    if max_drop is not None:
        goal = _with_drop(goal, kind, max_drop)
    if goal.floor is None and goal.max_drop is None:
        minimum = OptionReference("floor", "99%" if kind.unit == "%" else "0.99")
        example = OptionReference("max_drop", "0.5%") if kind.has_source else minimum
        hint = f"Give one, as in {example}."
        raise UsageError(f"The metric '{metric}' needs a floor or a maximum drop.", hint, [example])
    return goal


def _ratio_goal(floor: str | None, max_drop: str | None) -> Goal:
    if max_drop is not None:
        metric, half = OptionReference("metric", "top1-labels"), OptionReference("max_drop", "0.5%")
        raise UsageError(
            f"{_DROP} needs a metric with a value for the source model.",
            f"Name one, as in {metric} {half}; for a ratio in dB, give {_FLOOR}.",
            [_DROP, _FLOOR, metric, half],
        )
    text = DEFAULT_BUDGET if floor is None else floor
    return Goal(floor=floor_from(text), budget=_budget(text))


def _token_goal(text: str, max_drop: str | None) -> Goal:
    """Returns the goal of a decoder from `kl=0.02`, `top1=93%` or both; a plain number is that of `kl`."""
    if max_drop is not None:
        raise UsageError(
            f"The metric '{KL}' compares with the source, so it has no drop.",
            f"Give {_FLOOR} instead of {_DROP}.",
            [_FLOOR, _DROP],
        )
    from edgeopt.data.judging.metrics import metric_named

    floors: dict[str, float] = dict(TOKEN_FLOORS)
    floor_db, budget = None, ""
    for part in (each.strip() for each in text.split(",") if each.strip()):
        name, _, value = part.rpartition("=")
        if not name and _is_ratio(part):
            floor_db, budget = floor_from(part), _budget(part)
            continue
        name = name.strip() or KL
        if name not in floors:
            example = OptionReference("floor", "kl=0.02,top1=93%")
            raise UsageError(f"'{name}' has no floor.", f"Give one of these, or both: {example}.", [example])
        floors[name] = _within(metric_named(name), _number(value, "floor", metric_named(name)), value.strip())
    return Goal(KL, floors[KL], floor_db=floor_db, floor_top1=floors[TOP1], budget=budget)


def _with_drop(goal: Goal, kind: "AccuracyMetric", text: str) -> Goal:
    drop = _number(text, "drop", kind)
    if drop < 0:
        raise UsageError(f"{_DROP} is how much worse the result may be.", "Give 0 or more, as in 0.5%.", [_DROP])
    if kind.unit == "%" and drop > _LARGEST_BARE_DROP and not text.strip().endswith("%"):
        setting = OptionReference("max_drop", text)
        hint = f"Write {text}% or {100 * drop:g}%."
        raise UsageError(f"{setting} would be {100 * drop:g} points.", hint, [setting])
    if kind.has_source:
        return msgspec.structs.replace(goal, max_drop=drop)
    if kind.unit == "%" and goal.floor is None:
        # The source agrees with itself, so a drop is one minus the agreement.
        return msgspec.structs.replace(goal, floor=1.0 - min(drop, 1.0))
    raise UsageError(
        f"The metric '{kind.name}' compares with the source, so it has no drop.",
        f"Give {_FLOOR} instead of {_DROP}.",
        [_FLOOR, _DROP],
    )


def _is_ratio(text: str) -> bool:
    return text.lower() in BUDGETS_DB or text.lower().endswith("db")


def _budget(text: str) -> str:
    return text.strip().lower() if text.strip().lower() in BUDGETS_DB else ""


def _number(text: str, what: str, kind: "AccuracyMetric") -> float:
    share = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (share and kind.unit == "dB"):
        raise UsageError(
            f"'{text}' is not a {what} of the metric '{kind.name}'.", "Give a number, as in 0.99 or 99%."
        )
    return value / 100 if share else value


def _within(kind: "AccuracyMetric", value: float, text: str) -> float:
    low, high = kind.range
    if not low <= value <= high:
        hint = f"It lies between {low:g} and {high:g}"
        hint += (
            f"; a percent sign makes {text} one: {text}%."
            if kind.unit == "%" and 1 < value <= 100 and "%" not in text
            else "."
        )
        raise UsageError(f"The metric '{kind.name}' is never {text}.", hint)
    return value
