"""When nothing is proved: is that an answer, or may a longer search or a quieter device find one?"""

from types import SimpleNamespace

import pytest

from edgeopt.measure.stats import FASTER, IDENTICAL, NO_DIFFERENCE, TOO_FEW, TOO_NOISY, UNITY, Interval
from edgeopt.search.delivering.report import undecided_by
from edgeopt.search.outcome import Candidate, CandidateReport, VariantReport

WIDE = Interval(1.1, 0.53, 2.1, 12)
NARROW = Interval(1.0, 0.98, 1.02, 60)


def proved(speedup, verdict):
    return CandidateReport(Candidate("cleaned", "x"), "lost", "", speedup, proved=True, proof_verdict=verdict)


def proof(speedup, verdict):
    return SimpleNamespace(speedup=speedup, verdict=verdict)


@pytest.mark.parametrize(
    ("kept", "candidates", "variants", "said"),
    [
        (proof(NARROW, NO_DIFFERENCE), [proved(NARROW, NO_DIFFERENCE)], [], ()),
        (proof(WIDE, TOO_NOISY), [], [], ("the proof is too noisy to tell (1.10x [0.53 2.10])",)),
        (
            proof(NARROW, NO_DIFFERENCE),
            [proved(WIDE, TOO_NOISY)],
            [],
            ("the proof of cleaned · x is too noisy to tell (1.10x [0.53 2.10])",),
        ),
        (
            proof(UNITY, IDENTICAL),
            [proved(Interval(1.3, 1.2, 1.4, 12), TOO_FEW)],
            [],
            ("no time was left to prove cleaned · x",),
        ),
        (
            proof(NARROW, NO_DIFFERENCE),
            [],
            [VariantReport("a", "", failure="not ready", late=True)] * 2,
            ("2 variants not ready within the time limit",),
        ),
        (proof(NARROW, NO_DIFFERENCE), [], [VariantReport("a", "", failure="it does not apply")], ()),
        # The model against itself says nothing that the proofs of the candidates do not.
        (proof(WIDE, TOO_NOISY), [proved(NARROW, NO_DIFFERENCE)], [], ()),
        # However wide, it cannot be faster.
        (proof(NARROW, NO_DIFFERENCE), [proved(Interval(0.5, 0.2, 1.01, 12), TOO_NOISY)], [], ()),
        (proof(NARROW, NO_DIFFERENCE), [proved(Interval(1.2, 1.1, 1.3, 12), FASTER)], [], ()),
    ],
)
def test_noise_and_lack_of_time_leave_it_undecided(kept, candidates, variants, said):
    assert undecided_by(kept, candidates, variants) == said


def test_candidates_that_were_not_proved_leave_it_undecided():
    kept = proof(UNITY, IDENTICAL)
    assert undecided_by(kept, [], [], 2) == ("no time was left to prove 2 more promising candidates",)
