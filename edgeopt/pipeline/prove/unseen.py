"""Check with inputs that no run has had before: a backend that keeps its outputs is slower on them, or wrong."""

from pathlib import Path
from typing import NamedTuple

from edgeopt.errors import TrialError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.contender import Contender, ask, failed
from edgeopt.measure.messages import Unseen, UnseenRun
from edgeopt.measure.trial import read_outputs

PAIRS = 20
_SLOWER, _SLOWER_MS = 1.5, 0.02
"""Factor and milliseconds by which a new input must take longer to show that outputs are kept."""
_WORSE_DB = 20.0
"""Loss of accuracy on mixed samples at which a backend is refused, in dB."""


class UnseenOutputs(NamedTuple):
    """Agreement of two trials on new inputs, and the shortest times of the first one."""

    snr_db: float
    new_ms: float
    again_ms: float


def check_unseen(new: Contender, baseline: Contender, seed: int, folder: Path, seen_db: float) -> None:
    """Raises TrialError for a contender that answers new inputs more slowly or less accurately than known ones."""
    found = _compare(new, baseline, seed, folder)
    if found is None:
        return
    if found.snr_db < seen_db - _WORSE_DB:
        raise TrialError(
            f"its outputs for new inputs agree to {found.snr_db:.1f} dB, those for the samples to {seen_db:.1f} dB"
        )
    if found.new_ms > _SLOWER * found.again_ms and found.new_ms - found.again_ms > _SLOWER_MS:
        raise TrialError(
            f"it caches its outputs: a new input takes {found.new_ms:.3g} ms and the same one again "
            f"{found.again_ms:.3g} ms, so its times are not those of new requests"
        )


def _compare(new: Contender, baseline: Contender, seed: int, folder: Path) -> UnseenOutputs | None:
    """Compares two trials on mixed samples; returns None if no input has floating-point values to mix."""
    runs, outputs = [], []
    for number, contender in enumerate((new, baseline)):
        file = folder / f"unseen-{number}.npz"
        answer = ask(contender.child, Unseen(seed, PAIRS, str(file)), contender.patience_s(2 * PAIRS))
        if not isinstance(answer, UnseenRun):
            raise failed(answer)
        if not answer.new_ms:
            return None
        runs.append(answer)
        outputs.append(read_outputs(file))
    snr_db = compare_outputs(outputs[1], outputs[0]).snr_db
    return UnseenOutputs(snr_db, min(runs[0].new_ms), min(runs[0].again_ms))
