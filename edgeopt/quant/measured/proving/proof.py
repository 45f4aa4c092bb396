"""What a written file reaches on its backend: in real runs, on samples that plan or that were set aside."""

import math
from dataclasses import dataclass
from pathlib import Path

from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Judged
from edgeopt.graph.accuracy import compare_outputs, lower_bound_db
from edgeopt.graph.weak_samples import usual_power, weak_samples
from edgeopt.quant.measured.records import Proof
from edgeopt.quant.measured.runs import Runs
from edgeopt.quant.measured.study import Study
from edgeopt.quant.measured.timing.courses import Course


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs files on samples of the study and holds what they answer against the source."""

    study: Study
    runs: Runs
    goal: Goal

    def judged(self, path: Path, course: Course, which: range) -> Judged:
        """Raises an EdgeoptError where the file does not run there."""
        given = self.study.given
        got = self.runs.outputs(path, course.backend, course.options, given.feeds(which))
        reference = self.study.reference_of(which)
        return self.goal.judge(got, reference, given.labels_of(which), given.levels.of(which))

    def proof(self, path: Path, course: Course, steps_back: int = 0) -> Proof:
        """On the samples that prove."""
        given = self.study.given
        got = self.runs.outputs(path, course.backend, course.options, given.feeds(given.prove))
        reference = self.study.reference_of(given.prove)
        accuracy = compare_outputs(reference, got)
        planned = self.study.reference_of(given.plan)
        usual = usual_power(compare_outputs(planned, planned))
        labels, levels = given.labels_of(given.prove), given.levels.of(given.prove)
        judged = self.goal.judge(got, reference, labels, levels, usual)
        return Proof(
            len(given.prove),
            set_aside=not (given.use.shared or given.use.generated),
            snr_db=accuracy.snr_db if judged.snr_db is None else judged.snr_db,
            low_db=lower_bound_db(accuracy) if judged.low_db is None else judged.low_db,
            judged=None if self.goal.is_ratio else judged,
            outputs=tuple(output.without_samples() for output in accuracy.outputs),
            steps_back=steps_back,
            tail=judged.tail,
            weak=weak_samples(accuracy, self.goal.needed, usual) if self.goal.is_ratio else None,
            weakest=judged.weakest,
        )

    def met(self, proof: Proof | None) -> bool:
        """By the bound that resampling gives, or by the metric's own rule; never without a proof."""
        if proof is None:
            return False
        if proof.judged is not None:
            return self.goal.met(proof.judged)
        return proof.snr_db > -math.inf and self.score(proof) >= self.goal.needed

    def score(self, proof: Proof | None) -> float:
        """What decides, on a scale where more is better."""
        if proof is None:
            return -math.inf
        if proof.judged is not None:
            return self.goal.score(proof.judged)[1]
        lacks = self.goal.tail_lacks(proof.tail)
        return min(proof.low_db, self.goal.needed) - lacks if lacks else proof.low_db
