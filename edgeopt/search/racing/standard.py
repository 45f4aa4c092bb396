"""The reference that the outputs of all candidates are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from edgeopt.backends.base import Array
from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Judged, Labels
from edgeopt.data.levels import Levels
from edgeopt.data.split import Split
from edgeopt.graph.weak_samples import Usual

Answers = Sequence[dict[str, Array]]
"""One dict a sample."""


@dataclass(frozen=True, slots=True)
class Standard:
    split: Split
    goal: Goal
    reference: Answers
    """What the source answers to the samples that check."""
    levels: Levels
    """How loud the inputs are, of all samples."""
    labels: Labels | None = None
    """Of all samples."""
    usual: Usual = field(default_factory=dict)
    """The power of the source's outputs on the samples that check."""

    def judge(self, which: range, answers: Answers, reference: Answers) -> Judged:
        """`which`: the samples that were answered."""
        labels = None if self.labels is None else self.labels[which.start : which.stop]
        return self.goal.judge(answers, reference, labels, self.levels.of(which), self.usual)
