"""Whether a bundle, as it is loaded here, still gives the golden outputs that it was proved with."""

import math
from dataclasses import dataclass
from typing import Protocol

from edgeopt.backends.base import Array, Feeds
from edgeopt.bundle.read import Bundle
from edgeopt.graph.accuracy import compare_outputs

# Other processors round otherwise.
_LEEWAY_DB = 1.0
_FEW_SAMPLES_DB = 6.0


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    accuracy_db: float
    floor_db: float
    problem: str | None
    """Why the outputs cannot be compared at all: not finite, another shape."""

    def sentence(self, subject: str) -> str | None:
        """What is wrong with these answers, for people; None where they are good."""
        if not self.problem and self.accuracy_db >= self.floor_db:
            return None
        return (
            f"{subject} reaches {self.accuracy_db:.1f} dB on its golden samples; it needs "
            f"{self.floor_db:g} dB. {self.problem or ''}"
        ).strip()


class Runs(Protocol):
    """A session of a backend, or one that `edgeopt.load` gave."""

    def run(self, feeds: Feeds, /) -> dict[str, Array]: ...


def answer_golden(bundle: Bundle, session: Runs) -> GoldenAnswer:
    """Runs the golden inputs of a bundle and compares; raises what the session raises."""
    outputs = [session.run(feeds) for feeds in bundle.golden("inputs")]
    accuracy = compare_outputs(bundle.golden("reference"), outputs)
    return GoldenAnswer(accuracy.snr_db, golden_floor_db(bundle), accuracy.problem)


def golden_floor_db(bundle: Bundle) -> float:
    """What the golden samples must reach anywhere."""
    evidence = bundle.deployment.evidence or bundle.deployment.predicted
    # These few samples may lie below a floor that all of the proof's together reached; what they gave then is
    # enough now, within reason.
    proved_db = evidence.floor_db if evidence else 0.0
    then_db = compare_outputs(bundle.golden("reference"), bundle.golden("outputs")).snr_db
    near_db = proved_db - _FEW_SAMPLES_DB if proved_db > 0 else -math.inf
    return max(min(proved_db, then_db - _LEEWAY_DB), near_db)
