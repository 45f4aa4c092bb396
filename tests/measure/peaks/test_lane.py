import time

import pytest

from edgeopt.measure.host import LocalHost
from edgeopt.measure.peaks import measure as peaks_lane
from edgeopt.measure.peaks.measure import Lane
from edgeopt.measure.peaks.tasks import Dispatch

CHILD = """
import os, signal, time
import msgspec
from edgeopt.measure.peaks.tasks import Ran, decode_run
from edgeopt.measure.serve import Failed
from edgeopt.measure.serve import serve

def answer(line):
    name = decode_run(line).task.backend
    if name == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "hangs":
        time.sleep(600)
    return msgspec.json.encode(Failed("it cannot") if name == "fails" else Ran((float(os.getpid()),)))

serve(answer)
"""


@pytest.fixture
def lane(tmp_path, monkeypatch):
    (tmp_path / "planted_peaks_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(peaks_lane, "CHILD_MODULE", "planted_peaks_child")
    made = []

    def make(*names):
        made.append(Lane("x", LocalHost(), [Dispatch(name) for name in names]))
        return made[-1]

    yield make
    for each in made:
        each.close()


def turn(lane, name, within_s=60):
    lane.ask(Dispatch(name), 1.0)
    lane.answer(time.monotonic() + within_s)


def test_rates_are_kept_by_slice(lane):
    one = lane("good")
    turn(one, "good")
    turn(one, "good")
    assert len(one.slices[Dispatch("good")]) == 2


def test_what_a_task_says_is_its_reason(lane):
    one = lane("good", "fails")
    turn(one, "fails")
    assert one.failures == {Dispatch("fails"): "it cannot"}
    assert one.tasks == [Dispatch("good")]


@pytest.mark.parametrize(("bad", "reason"), [("crashes", "crashed: SIGSEGV"), ("hangs", "hung")])
def test_the_others_go_on_in_a_new_process(lane, bad, reason):
    one = lane("good", bad)
    turn(one, "good")
    turn(one, bad, within_s=60 if bad == "crashes" else 0.5)
    assert reason in one.failures[Dispatch(bad)]
    turn(one, bad)  # is not asked again
    turn(one, "good")
    before, after = one.slices[Dispatch("good")]
    assert before != after


def test_a_process_that_fails_again_and_again_is_given_up(lane, monkeypatch):
    monkeypatch.setattr(peaks_lane, "CHILD_MODULE", "no_such_module")
    one = lane("a", "b", "c", "d")
    for name in "abcd":
        turn(one, name)
    assert one.tasks == []
    assert one.failures[Dispatch("d")] == "ended too often; it was not started again"
