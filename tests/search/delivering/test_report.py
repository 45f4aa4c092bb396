from edgeopt.measure.stats import Interval
from edgeopt.search.delivering.report import warnings_of
from edgeopt.search.outcome import Proof


def proof(**more):
    return Proof("faster", Interval(2.0, 1.9, 2.1, 11), 2.0, 1.0, 60.0, 4, True, **more)


def test_a_bundle_of_which_a_part_falls_back_says_so():
    said = "3 of 9 nodes do not run on CUDA but on CPU: Gather: g"
    assert warnings_of(proof(fallback=said)) == (f"In the bundle, {said}.",)
    assert warnings_of(proof()) == ()
