import pytest

from edgeopt.cli.passes import show
from edgeopt.commands.passes import PassesRequest, PassLine, PassList, passes
from edgeopt.graph.passes import standard_passes
from edgeopt.views.terminal import write


@pytest.fixture
def printed():
    def shown(found, width=200):
        from rich.console import Console

        console = Console(record=True, width=width)
        with console.capture() as captured:
            write(show(found), console)
        return captured.get()

    return shown


def test_every_pass_has_its_line(printed):
    lines = printed(passes(PassesRequest())).splitlines()
    for one in standard_passes():
        assert any(line.startswith(one.name) and one.title in line for line in lines)


def test_what_runs_on_request_alone_is_said(printed):
    lines = (PassLine("usual", "does this"), PassLine("wild", "does that", on_request=True, lowest_opset=20))
    text = printed(PassList(lines))
    assert "Only on request (edgeopt simplify --also PASS): wild." in text
    assert "20" in text


def test_one_pass_tells_how_it_works(printed):
    text = printed(passes(PassesRequest("dead-nodes")))
    assert "Removes nodes, weights and functions that no output needs" in text
    assert "bit-identical" in text


def test_the_inputs_for_which_results_stay_the_same_are_said(printed):
    lines = {line.split()[0]: line for line in printed(passes(PassesRequest())).splitlines() if line.strip()}
    assert "finite and non-empty inputs only" in lines["pad-into-pool"]
    assert "finite inputs only" in lines["operator-forms"]
    assert "non-empty inputs only" in lines["fold-shapes"]
    assert "inputs only" not in lines["transposes"]
    assert "for finite and non-empty inputs only" in printed(passes(PassesRequest("global-pooling")))


def test_explanation_of_a_pass_keeps_its_lines(printed):
    text = printed(passes(PassesRequest("batchnorm-into-conv")))
    assert "\\n" not in text
    assert "\ny = scale * " in text
