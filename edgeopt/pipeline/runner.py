"""Runner of a search's trials on its samples, and the reference outputs that they are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.backends.base import Array
from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Judged, Labels
from edgeopt.data.levels import Levels
from edgeopt.data.split import Split
from edgeopt.graph.levels import Usual
from edgeopt.measure.contender import Contender, enter, save_outputs
from edgeopt.measure.messages import ONE, Calls, Load
from edgeopt.measure.trial import read_outputs
from edgeopt.pipeline.outcome import RuntimeOptions
from edgeopt.workers.host import TrialHost

Answers = Sequence[dict[str, Array]]
"""Outputs by name, one mapping for each sample."""


@dataclass(frozen=True, slots=True)
class AccuracyReference:
    split: Split
    goal: Goal
    outputs: Answers
    """Outputs of the source for the samples that check."""
    levels: Levels
    """Levels of the inputs of all samples."""
    labels: Labels | None = None
    """Labels of all samples."""
    usual: Usual = field(default_factory=dict)
    """Power of the source's outputs on the samples that check."""

    def judge(self, which: range, answers: Answers, reference: Answers) -> Judged:
        """Judges the answers to the samples `which` against the reference."""
        labels = None if self.labels is None else self.labels[which.start : which.stop]
        return self.goal.judge(answers, reference, labels, self.levels.of(which), self.usual)


@dataclass(frozen=True, slots=True)
class TrialRunner:
    host: TrialHost
    folder: Path
    samples_path: Path
    runs_a_sample: int = 1
    """Number of timed runs that a sample may take as long as: a text of a decoder has many tokens."""

    def enter(
        self,
        name: str,
        backend: str,
        path: Path,
        options: RuntimeOptions | None = None,
        *,
        calls: Calls = ONE,
        timeout_s: float | None = None,
    ) -> Contender:
        """Starts a trial that has loaded a model and runs the samples; raises TrialError if it cannot."""
        place, samples = self.host.put(path), self.host.put(self.samples_path)
        load = Load(backend, place, options or {}, samples, batch=calls.batch)
        return enter(self.host, name, load, timeout_s, calls.callers)

    def outputs(self, contender: Contender, which: range, batch: int | None = None) -> Answers:
        """Returns a contender's outputs for some of the samples, in its own batch size or in `batch`."""
        file, size = self.folder / "outputs.npz", contender.batch if batch is None else batch
        save_outputs(
            contender,
            which.start,
            len(which),
            str(file),
            contender.patience_s(len(which) * self.runs_a_sample),
            size,
        )
        return read_outputs(file)
