"""What the core says in the words of its command line, said in those of the page."""

import pytest

from edgeopt.errors import EdgeoptError
from edgeopt.judging.goals import goal_from
from edgeopt.search.limits import limits_from
from edgeopt.search.settings import checked_target
from edgeopt_gui.pages.optimize.in_the_app import in_the_app

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
)


@pytest.mark.parametrize("bad", BAD)
def test_no_option_of_the_command_line_is_named(bad):
    with pytest.raises(EdgeoptError) as raised:
        bad()
    said = f"{in_the_app(raised.value.message)} {in_the_app(raised.value.hint)}"
    assert "--" not in said
    assert said[0] == said[0].upper()


def test_what_names_no_option_stays_as_it_is():
    assert in_the_app("'d.npz' cannot be read.") == "'d.npz' cannot be read."


def test_examples_of_sizes_read_as_they_are_typed():
    hint = "Write it as --shape seq=16:32:128 (least, usual, largest) or --shape seq=16,32,64."
    assert in_the_app(hint) == "Write it as seq=16:32:128 (least, usual, largest) or seq=16,32,64."


def test_a_field_at_the_beginning_is_capital():
    assert in_the_app("--max-memory-mib 0 is nothing.") == "Memory limit 0 is nothing."
