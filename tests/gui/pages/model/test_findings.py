import pytest

from edgeopt.graph.analysis import CoverageRow, NodeRow, Opportunity, Tensor
from edgeopt_gui.pages.model import findings


def facts(groups):
    return {fact.name: fact.value for group in groups for fact in group.facts}


@pytest.mark.parametrize(
    ("share", "text"), [(0.124, "≤ 12%"), (0.01, "≤ 1%"), (0.004, "< 1%"), (0.0, "< 1%"), (None, "no estimate")]
)
def test_a_gain_is_a_bound_and_none_is_told(share, text):
    assert findings.gain_text(Opportunity("layout", "t", "r", gain_share=share)) == text


def test_every_opportunity_of_the_sample_finds_its_nodes(analysis):
    named = [each for each in analysis.opportunities if each.nodes]
    assert len(named) > 3
    for each in named:
        names = findings.names_of(each)
        assert [node for node in analysis.nodes if findings.is_named(node, names)], each.title


def test_the_command_is_the_one_that_was_told(analysis):
    for each in analysis.opportunities:
        assert findings.command_of(each).line == each.command
    assert findings.command_of(Opportunity("layout", "t", "r")) is None


def test_a_node_is_known_by_its_name_its_first_output_and_its_place():
    def row(name, inside=""):
        return NodeRow(0, name, "Conv", "", (), (Tensor("y"),), 0, 0, inside)

    assert findings.is_named(row("c"), frozenset({"c"}))
    assert findings.is_named(row(""), frozenset({"y"}))
    assert findings.is_named(row("c", "if/then"), frozenset({"if/then/c"}))
    assert not findings.is_named(row("c"), frozenset({"y", ""}))


def test_why_it_could_gain_and_what_that_stands_on():
    many = tuple(f"n{k}" for k in range(30))
    shown = facts(findings.opportunity_facts(Opportunity("k", "t", "Why.", many, None, "no peaks", exact=False)))
    assert shown["Why"] == "Why."
    assert shown["Estimate"] == "no peaks"
    assert shown["Results"].startswith("change")
    assert shown["Nodes"].endswith("n11, and 18 more")


def test_a_runtime_that_runs_all_some_or_nothing():
    whole = CoverageRow("a", "A", "1.0", 83, 83, (), 0)
    partly = CoverageRow("b", "B", "1.0", 80, 83, ("Odd: o",), 2, "they run on the processor instead")
    broken = CoverageRow("c", "C", reason="it does not load it")
    assert findings.rest_text(whole) == "nothing"
    assert facts(findings.coverage_facts(whole))["Boundaries"] == "none: data stays where it is"
    shown = facts(findings.coverage_facts(partly))
    assert shown["Runs"].startswith("80 of 83 nodes")
    assert (shown["Not its own"], shown["Why"]) == ("Odd: o", "they run on the processor instead")
    assert shown["Boundaries"] == "data changes place 2 times in one run"
    shown = facts(findings.coverage_facts(broken))
    assert (shown["Runs"], shown["Boundaries"], shown["Why"]) == ("unknown", "unknown", "it does not load it")
    assert findings.rest_text(CoverageRow("d", "D")) == "unknown"
