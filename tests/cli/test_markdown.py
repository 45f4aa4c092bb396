import pytest

from edgeopt.cli.console import failure_as_page, machine_line, refuse_two_voices
from edgeopt.errors import ModelError, UsageError


def test_a_machine_is_one_line():
    assert machine_line({"cpu": "Abacus"}, {"edgeopt": "1"}) == "Machine: Abacus, edgeopt 1."
    assert machine_line({}) == ""


def test_records_and_a_page_do_not_go_together():
    refuse_two_voices(json=True, markdown=False)
    refuse_two_voices(json=False, markdown=True)
    with pytest.raises(UsageError, match="exclude each other"):
        refuse_two_voices(json=True, markdown=True)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_page_says_why_there_is_nothing_to_sum_up(capsys, wanted):
    with pytest.raises(ModelError), failure_as_page("edgeopt bench: a_b", wanted):
        raise ModelError("It is [torn].", "Mend it.")
    page = "## edgeopt bench: a\\_b\n\n**Failed: It is \\[torn\\].**\n\nMend it.\n"
    assert capsys.readouterr().out == (page if wanted else "")


def test_wrong_usage_is_no_page(capsys):
    with pytest.raises(UsageError), failure_as_page("edgeopt bench", wanted=True):
        raise UsageError("No.")
    assert capsys.readouterr().out == ""
