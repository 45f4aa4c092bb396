"""Sentences on models of other frameworks."""

import pytest

from edgeopt.measure.report import Agreement, OriginalRun, OriginalSpeed
from edgeopt.measure.stats import Interval
from edgeopt.views.originals import original_lines, original_speed


def ran(*agreements):
    return OriginalRun("net.py:Net", "torch 2.13.0", "eager", 2, agreements)


@pytest.mark.parametrize(
    ("agreement", "said"),
    [
        (
            Agreement("m.onnx", 121.84, "", 16),
            "agree with those of net.py:Net to 121.8 dB on 16 samples",
        ),
        (Agreement("m.onnx", 200.0, "", 1), "The outputs of m.onnx and net.py:Net are equal on 1 sample."),
        (
            Agreement("m.onnx", None, "has other outputs: a"),
            "cannot be compared with those of net.py:Net: has",
        ),
    ],
)
def test_agreement_is_said_with_its_samples(agreement, said):
    first, second = original_lines(ran(agreement))
    assert first == "net.py:Net ran in torch 2.13.0, eager, 2 threads."
    assert said in second


def test_speed_is_a_ratio_where_it_is_proved():
    ratio = Interval(2.0, 1.9, 2.1, 40, 0.95)
    said = original_speed(OriginalSpeed(ran(), ratio, "faster", 4.0))
    assert said == f"Against net.py:Net in torch 2.13.0, eager, 2 threads (4.00 ms a run): {ratio}, faster."
    noisy = original_speed(OriginalSpeed(ran(), ratio, "too noisy to tell"))
    assert noisy == f"Against net.py:Net in torch 2.13.0, eager, 2 threads: too noisy to tell; {ratio} so far."
    wide = original_speed(OriginalSpeed(ran(), Interval(333.17, 0.1, 2.8e13, 2), "too noisy to tell"))
    assert wide.endswith(": too noisy to tell.")
    assert original_speed(OriginalSpeed(ran(), None, "too few rounds to tell")).endswith("too few rounds to tell.")
