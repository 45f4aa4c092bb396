import pytest

from edgeopt.commands.passes import PassesRequest, passes
from edgeopt.errors import UsageError


def test_a_line_tells_whether_results_stay_exact_and_where_the_pass_stands():
    lines = {line.name: line for line in passes(PassesRequest()).passes}
    assert lines["dead-nodes"].tolerance_db is None
    assert lines["dead-nodes"].kind == "cleaning"
    assert lines["batchnorm-into-conv"].tolerance_db >= 80
    assert lines["batchnorm-into-conv"].kind == "fusion"
    assert not lines["dead-nodes"].on_request


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'dead-nodes'"):
        passes(PassesRequest("dead-nodez"))


def test_rules_of_the_users_own_are_listed_with_their_titles(tmp_path):
    pytest.importorskip("onnxscript")
    (tmp_path / "mine.py").write_text(
        'TITLE = "two become one"\n'
        "def pattern(op, x):\n    return op.Neg(op.Neg(x))\n"
        "def replacement(op, x):\n    return op.Identity(x)\n"
    )
    (line,) = (
        each for each in passes(PassesRequest(rules=(tmp_path / "mine.py",))).passes if each.kind == "rules"
    )
    assert (line.name, line.title) == ("mine:rule", "two become one")
