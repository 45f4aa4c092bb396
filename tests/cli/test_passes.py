import pytest

from edgeopt.cli.passes import PassLine, PassList, list_passes, show
from edgeopt.commands.documents.terminal import write
from edgeopt.errors import UsageError
from edgeopt.graph.passes import PASSES


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
    lines = printed(list_passes()).splitlines()
    for one in PASSES:
        assert any(line.startswith(one.name) and one.title in line for line in lines)


def test_a_line_tells_whether_results_stay_exact_and_where_the_pass_stands():
    lines = {line.name: line for line in list_passes().passes}
    assert lines["dead-nodes"].tolerance_db is None
    assert lines["dead-nodes"].kind == "cleaning"
    assert lines["batchnorm-into-conv"].tolerance_db >= 80
    assert lines["batchnorm-into-conv"].kind == "fusion"
    assert not lines["dead-nodes"].on_request


def test_what_runs_on_request_alone_is_said(printed):
    lines = (PassLine("usual", "does this"), PassLine("wild", "does that", on_request=True, lowest_opset=20))
    text = printed(PassList(lines))
    assert "On request alone (edgeopt simplify --also PASS): wild." in text
    assert "20" in text


def test_one_pass_tells_how_it_works(printed):
    text = printed(list_passes("dead-nodes"))
    assert "Removes what no output needs" in text
    assert "the same to the last bit" in text


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'dead-nodes'"):
        list_passes("dead-nodez")


def test_rules_of_the_users_own_are_listed_with_their_titles(tmp_path):
    pytest.importorskip("onnxscript")
    (tmp_path / "mine.py").write_text(
        'TITLE = "two become one"\n'
        "def pattern(op, x):\n    return op.Neg(op.Neg(x))\n"
        "def replacement(op, x):\n    return op.Identity(x)\n"
    )
    (line,) = (each for each in list_passes(rules=(tmp_path / "mine.py",)).passes if each.kind == "rules")
    assert (line.name, line.title) == ("mine:rule", "two become one")
