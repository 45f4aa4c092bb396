"""The golden samples of a bundle: the first of those that proved it, and what was answered to them."""

from dataclasses import dataclass
from pathlib import Path

from edgeopt.bundle import write
from edgeopt.bundle.golden import put_processing_golden
from edgeopt.bundle.processing.attach import Attached
from edgeopt.data.samples import Samples
from edgeopt.data.split import Split
from edgeopt.search.notes import Notes
from edgeopt.search.racing.standard import Answers

_GOLDEN_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Golden:
    split: Split
    samples: Samples
    raw: Samples | None
    """What they were made of by the preprocessing."""
    attached: Attached | None

    def put(self, folder: Path, outputs: Answers, reference: Answers, notes: Notes) -> None:
        """What the bundle answered to the samples that prove, one at a time, and what the source did."""
        first, places = self.split.prove_first, golden_places(self.split.prove_count)
        answered = [outputs[k] for k in places]
        write.write_golden(folder, "inputs", [self.samples.feeds(first + k) for k in places])
        write.write_golden(folder, "outputs", answered)
        write.write_golden(folder, "reference", [reference[k] for k in places])
        if self.attached is not None:
            raw = [self.raw.feeds(first + k) for k in places] if self.raw is not None else []
            unchecked = put_processing_golden(folder, self.attached.processing, raw, answered)
            notes.warn_once(unchecked)


def golden_places(count: int) -> list[int]:
    """A few of the samples that proved, from first to last: made-up ones begin with the ordinary."""
    golden = min(count, _GOLDEN_SAMPLES)
    return [round(k * (count - 1) / max(golden - 1, 1)) for k in range(golden)]
