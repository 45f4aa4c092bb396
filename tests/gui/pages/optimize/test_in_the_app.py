"""What the core says in the words of its command line, said in those of the page."""

import pytest

from edgeopt import events
from edgeopt.data.judging.goals import goal_from
from edgeopt.data.judging.metrics import no_labels
from edgeopt.errors import EdgeoptError, OptionReference
from edgeopt.options import options_of
from edgeopt.pipeline.objectives import limits_from
from edgeopt.pipeline.request import OptimizeRequest, checked_target
from edgeopt_gui.jobs.ending import ending_of
from edgeopt_gui.pages.optimize.in_the_app import TITLES, ending_in_the_app, in_the_app, without_flags


def _no_labels():
    raise no_labels("The data has none.")


BAD = (
    lambda: limits_from(max_memory_mib=-1),
    lambda: limits_from(max_size_mib=0),
    lambda: limits_from(max_latency_ms=0),
    lambda: checked_target(0.5),
    lambda: goal_from("top1"),
    lambda: goal_from("cosine"),
    lambda: goal_from("cosine", max_drop="0.1"),
    lambda: goal_from("top1-labels", max_drop="1"),
    lambda: goal_from("top1", "99"),
    lambda: goal_from("top1", max_drop="-1%"),
    lambda: goal_from("snr", max_drop="1%"),
    _no_labels,
)


@pytest.mark.parametrize("bad", BAD)
def test_no_option_of_the_command_line_is_named(bad):
    with pytest.raises(EdgeoptError) as raised:
        bad()
    said = in_the_app(f"{raised.value.message} {raised.value.hint}", raised.value.named)
    assert "--" not in said
    assert said[0] in f"'{said[0].upper()}"


def test_a_field_is_named_as_it_stands_on_the_page():
    named = (OptionReference("max_drop"), OptionReference("max_drop", "0.5%"))
    said = in_the_app("--max-drop is needed, as in --max-drop 0.5%.", named)
    assert said == "'Drop at most' is needed, as in 'Drop at most' 0.5%."


def test_what_only_looks_like_an_option_stays_as_it_is():
    assert in_the_app("'--floor.npz' cannot be read.", ()) == "'--floor.npz' cannot be read."


def test_what_a_job_says_of_options_arrives_with_their_names():
    named = (OptionReference("labels", "y"), OptionReference("labels"))
    error = events.Error("usage", "--labels y is missing.", "Leave --labels out.", named=named)
    told = events.decode(events.encode(error))
    ending = ending_of(told, cancelled=False, exit_code=2, crashed=False, details="")
    said = ending_in_the_app(ending)
    assert (said.what, said.next_step) == ("'Labels in' y is missing.", "Leave 'Labels in' out.")


def test_titles_are_of_options_that_there_are():
    assert TITLES.keys() <= {each.name for each in options_of(OptimizeRequest)}


def test_the_app_speaks_of_its_own_action_instead_of_the_option():
    assert without_flags("Pass --data to try 8-bit variants too.") == "Choose data to try 8-bit variants too."
    assert without_flags("It says little. Pass samples with --data.") == "It says little. Choose data."
