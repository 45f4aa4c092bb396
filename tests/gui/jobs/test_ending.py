import signal

import pytest

from edgeopt import events
from edgeopt_gui.jobs.ending import ending_of

RESULT = events.Result("probe", {"a": 1})
ERROR = events.Error("bad-model", "It is no model.", "Give another.")


def end(last, **changes):
    facts = {"cancelled": False, "exit_code": 0, "crashed": False, "details": "$ edgeopt probe"}
    return ending_of(last, **(facts | changes))


def test_a_result_is_good_and_has_its_data():
    ending = end(RESULT)
    assert ending.good
    assert ending.data == {"a": 1}


def test_a_result_that_says_no_is_a_result():
    assert end(RESULT, exit_code=6).good
    assert end(RESULT, exit_code=1).how == "crashed"


def test_an_error_keeps_its_sentence_and_its_hint():
    ending = end(ERROR, exit_code=3)
    assert (ending.how, ending.what, ending.next_step) == ("failed", "It is no model.", "Give another.")


def test_a_result_does_not_hide_that_the_process_died_after_it():
    assert end(RESULT, exit_code=signal.SIGSEGV, crashed=True).how == "crashed"


def test_a_job_killed_from_outside_names_the_signal_and_a_next_step():
    ending = end(None, exit_code=signal.SIGKILL, crashed=True)
    assert ending.how == "crashed"
    assert "SIGKILL" in ending.what
    assert ending.next_step


@pytest.mark.parametrize("crashed", [True, False])
def test_a_cancelled_job_is_cancelled_however_it_ended(crashed):
    ending = end(events.Error("terminated", "Stopped."), cancelled=True, exit_code=143, crashed=crashed)
    assert ending.how == "cancelled"


def test_a_job_that_was_done_before_the_cancel_reached_it_is_done():
    assert end(RESULT, cancelled=True).good


def test_silence_is_told_with_the_exit_code():
    assert "exit code 7" in end(None, exit_code=7).what
