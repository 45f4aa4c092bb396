import io

import msgspec
import pytest
from rich.console import Console

from edgeopt.graph.analysis import (
    Analysis,
    CategoryRow,
    Cost,
    CoverageRow,
    NodeRow,
    OperatorRow,
    OperatorWork,
    Opportunity,
    TensorFacts,
)
from edgeopt.views.analysis import by_category, scaled, sections, shortened, top_nodes
from edgeopt.views.markdown import page
from edgeopt.views.terminal import write


@pytest.fixture
def analysis():
    """Two nodes of which one has no known cost; times by measured peaks; names with mark-up in them."""
    ports = (TensorFacts("x", "float32", (1, 4)),), (TensorFacts("y|[z]", "float32", (1, None)),)
    rows = (
        NodeRow(0, "mat_mul", "MatMul", "", *ports, 0, 0, category="matrix product",
                cost=Cost(2_000_000, 4_000_000, 1000, 500), least_ms=0.25, bound="compute"),
        NodeRow(1, "odd", "Odd", "mine", *ports, 0, 0, category="unknown", cost=Cost(unknown="nobody knows it")),
    )  # fmt: skip
    return Analysis(
        "m.onnx", "m.onnx", "model", "ONNX", "0" * 64, 10, 0, 0, 2, *ports,
        operators=(OperatorRow("MatMul", "", 1, 0, "matrix product", 4_000_000, 1500),
                   OperatorRow("Odd", "mine", 1, 0, "unknown", unknown=1)),
        nodes=rows, weights_count=0, weights=(),
        warnings=("a warning",),
        categories=(CategoryRow("matrix product", 1, 4_000_000, 1500, 0, 0.25),
                    CategoryRow("unknown", 1, unknown=1)),
        work=OperatorWork(2_000_000, 4_000_000, 1500, 1, ("nobody knows it",), 2048, "mat_mul", least_ms=0.25),
        opportunities=(
            Opportunity("quantization", "Quantize", "Because.", ("a", "b", "c", "d"), 0.42, "guessed; peaks",
                        "do it", exact=False),
            Opportunity("weights", "Drop some", "They are not used.", basis="no gain", command="do it"),
        ),
        coverage=(CoverageRow("onnxruntime-cpu", "ONNX Runtime", "1", 1, 2, ("Odd: odd",), None, "it cannot"),),
    )  # fmt: skip


def shown(analysis, width, nodes=False, weights=False):
    text = io.StringIO()
    write(sections(analysis, nodes, weights, looked=True), Console(file=text, width=width, highlight=False))
    return text.getvalue()


def test_people_see_what_it_costs_and_where_that_goes(analysis):
    out = shown(analysis, 120, nodes=True)
    for wanted in (
        *("at least 4.00 MFLOP, of them 2.00 MMAC", "2 KiB (node ", "250 µs of the 1 nodes", "compute"),
        *("1 node of unknown cost: nobody knows it", "a warning", "██"),
    ):
        assert wanted in out


LONG = "If_0/then_branch/If_0_then_branch__Inline_0__/decoder/If_1/then_branch/If_0_then_branch/decoder/rnn/LSTM"


def test_a_long_name_takes_one_line_in_tables(analysis):
    node = msgspec.structs.replace(analysis.nodes[0], name=LONG)
    analysis = msgspec.structs.replace(analysis, nodes=(node, analysis.nodes[1]))
    out = shown(analysis, 120, nodes=True)
    assert out.count("If_0/…/If_0_then_branch/decoder/rnn/LSTM") == 2
    assert LONG not in out


def test_names_lose_their_middle_only_if_they_are_long():
    assert shortened("/model/conv/Conv") == "/model/conv/Conv"
    assert shortened("/model/" + 20 * "block/" + "conv2/Conv") == f"/model/…/{4 * 'block/'}conv2/Conv"
    assert len(shortened(100 * "a")) == 48
    assert len(shortened(f"{60 * 'a'}/b/{60 * 'c'}")) == 48


def test_the_table_by_category_says_what_moves(analysis):
    assert "weights and activations together" in shown(analysis, 120)


def test_opportunities_say_gain_reason_nodes_and_the_command_once(analysis):
    out = shown(analysis, 120)
    for wanted in (
        "≤ 42 %",
        "Quantize",
        "changes the results",
        "Because. (a, b and 2 more)",
        "Drop some",
        "no gain",
    ):
        assert wanted in out
    assert out.count("do it") == 1
    assert "estimated from peaks" in out


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(analysis, width):
    out = shown(analysis, width, nodes=True, weights=True)
    assert max(map(len, out.splitlines())) <= width
    assert "…" not in out.replace(f"{'0' * 16}…", "")


def test_a_narrow_terminal_has_no_bars(analysis):
    assert "█" not in shown(analysis, 80)


def test_nothing_found_is_told(analysis):
    assert "Nothing was found." in shown(msgspec.structs.replace(analysis, opportunities=()), 80)


def test_columns_of_times_are_there_only_where_there_are_times(analysis):
    assert "least time" in titles(by_category(analysis))
    bare = tuple(msgspec.structs.replace(row, least_ms=None, bound="") for row in analysis.nodes)
    kinds = tuple(msgspec.structs.replace(row, least_ms=None) for row in analysis.categories)
    untimed = msgspec.structs.replace(analysis, nodes=bare, categories=kinds)
    assert "least time" not in titles(by_category(untimed))
    assert "shares of the operations" in by_category(untimed).title
    assert titles(top_nodes(untimed))[-1] == "moved"


def titles(section):
    (table,) = section.blocks
    return [column.title for column in table.columns]


def test_a_document_keeps_its_tables_whatever_the_names_are(analysis):
    text = page(analysis.name, sections(analysis, nodes=True, weights=False, looked=True))
    assert "y\\|\\[z\\]" in text
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) > 5
    for lines in tables:
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert "### Quantize (≤ 42 % of a run)" in text
    assert "It changes the results." in text
    assert "- a warning" in text


def test_figures_in_units_that_read_well():
    assert [scaled(value) for value in (0, 999, 1234, 12_345_678, 2.5e9, 1e12)] == [
        *("0 ", "999 ", "1.23 k", "12.3 M", "2.50 G", "1.00 T"),
    ]
