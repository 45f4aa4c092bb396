import msgspec
import numpy as np
import onnx_ir as ir
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QStyleOptionViewItem

from edgeopt.commands.analyze.analyze import analyze
from edgeopt.data.demo import MODEL
from edgeopt.graph.analysis import (
    CoverageRow,
    FileRow,
    NodeRow,
    OperatorRow,
    Opportunity,
    ProvedOutput,
    TensorFacts,
    WeightRow,
)
from edgeopt.graph.analysis.weights import content as content_of
from edgeopt_gui.pages.graph.page import ENTRY as GRAPH
from edgeopt_gui.pages.model import tables, words
from edgeopt_gui.pages.model.nodes import Nodes
from edgeopt_gui.pages.model.opportunities import Opportunities
from edgeopt_gui.pages.model.page import ENTRY
from edgeopt_gui.pages.model.runtimes import Runtimes
from edgeopt_gui.pages.model.tables import Weight
from edgeopt_gui.pages.model.weight_view import WeightView
from edgeopt_gui.pages.model.work import Totals, totals
from edgeopt_gui.subject import subject_at


@pytest.fixture
def nodes(qtbot, analysis):
    made = Nodes()
    qtbot.addWidget(made)
    made.watcher = QAbstractItemModelTester(made.records, QAbstractItemModelTester.FailureReportingMode.Warning)
    made.set_nodes(analysis.nodes, totals(analysis))
    made.resize(700, 600)
    made.show()
    return made


def detail(nodes, name):
    return next(fact.value for group in nodes.details.groups for fact in group.facts if fact.name == name)


def test_the_node_with_the_largest_share_is_first_and_its_details_stand_below(nodes, analysis):
    shares = [node.cost.operations or 0 for node in nodes.records.shown]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == max(node.cost.operations or 0 for node in analysis.nodes)
    assert detail(nodes, "Operator") == "Conv"


def test_constants_are_folded_away_until_they_are_asked_for(qtbot, nodes):
    assert nodes.constants.text() == "Constants (16)"
    assert "Constant" not in {node.operator for node in nodes.records.shown}
    nodes.constants.click()
    assert nodes.records.rowCount() == 95
    nodes.constants.click()
    nodes.show_operator("Constant")
    assert nodes.records.rowCount() == 16


def test_zeros_are_blank(nodes):
    columns = {column.title: column for column in nodes.records.columns}
    shape = next(node for node in nodes.records.rows if node.operator == "Shape")
    assert [columns[title].text_of(shape) for title in ("Operations", "Work %")] == ["", ""]


def test_long_names_are_cut_in_their_middle(nodes):
    place = next(k for k, column in enumerate(nodes.records.columns) if column.title == "Name")
    option = QStyleOptionViewItem()
    nodes.table.itemDelegateForColumn(place).initStyleOption(option, nodes.records.index(0, place))
    assert option.textElideMode == Qt.TextElideMode.ElideMiddle


def test_the_arrow_keys_show_other_details(qtbot, nodes):
    qtbot.keyClick(nodes.table, Qt.Key.Key_Down)
    assert detail(nodes, "Name") == nodes.records.row(1).name


def test_one_operator_alone_and_all_again(qtbot, nodes):
    nodes.show_operator("Conv")
    assert {node.operator for node in nodes.records.shown} == {"Conv"}
    assert detail(nodes, "Operator") == "Conv"
    assert nodes.all.text() == "Only Conv: show all"
    with qtbot.waitSignal(nodes.everything_requested):
        qtbot.mouseClick(nodes.all, Qt.MouseButton.LeftButton)
    nodes.show_operator("")
    assert nodes.records.rowCount() == 79
    assert not nodes.all.isVisible()


def test_a_search_without_an_answer_says_so(qtbot, nodes):
    qtbot.keyClicks(nodes.bar.line, "nothing like it")
    assert nodes.records.rowCount() == 0
    assert not nodes.details.isVisible()
    nodes.bar.line.clear()
    assert nodes.details.isVisible()


def titles(nodes):
    header = nodes.table.horizontalHeader()
    return [c.title for place, c in enumerate(nodes.records.columns) if not header.isSectionHidden(place)]


def test_shares_are_of_the_least_time_where_it_is_known_and_else_of_the_operations(nodes, analysis):
    assert "Work %" in titles(nodes)
    assert "Time %" not in titles(nodes)
    nodes.set_nodes(analysis.nodes, Totals(1000, 1.5))
    assert "Time %" in titles(nodes)
    assert "Work %" not in titles(nodes)


def test_marked_nodes_stand_out_and_a_line_says_why(nodes):
    nodes.mark(frozenset({"node_conv2d"}), "Quantize the large layers")
    fonts = {
        row.name: nodes.records.index(place, 0).data(Qt.ItemDataRole.FontRole)
        for place, row in enumerate(nodes.records.shown)
    }
    assert [name for name, font in fonts.items() if isinstance(font, QFont) and font.bold()] == ["node_conv2d"]
    assert nodes.marks.isVisible()
    assert "Quantize the large layers" in nodes.marks.text()
    nodes.mark(frozenset(), "")
    assert not nodes.marks.isVisible()


def test_the_same_nodes_again_move_nothing(qtbot, nodes, analysis):
    nodes.table.pick(("", 40))
    with qtbot.assertNotEmitted(nodes.records.modelReset):
        nodes.set_nodes(list(analysis.nodes), totals(analysis))
    assert nodes.table.current.position == 40


ROWS = (
    Opportunity(
        "layout", "Avoid transposes", "They compute nothing.", ("t1",), 0.1, "", "edgeopt simplify a.onnx"
    ),
    Opportunity("batch", "Run several at once", "Weights are read once.", (), None, "", "edgeopt bench a.onnx"),
)


@pytest.fixture
def tab(qtbot):
    made = Opportunities()
    made.told = []
    made.looked_at.connect(lambda each: made.told.append(each and each.kind))
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.set_rows(ROWS, "")
    return made


def test_the_first_is_told_once_somebody_looks(tab):
    assert [kind for kind in tab.told if kind] == []
    tab.show()
    assert tab.told[-1] == "layout"
    assert tab.command.text() == "edgeopt simplify a.onnx"


def test_another_one_shows_its_command_to_copy(qtbot, tab):
    tab.show()
    qtbot.keyClick(tab.table, Qt.Key.Key_Down)
    assert tab.told[-1] == "batch"
    assert tab.facts.groups[0].title == "Run several at once"
    tab.command.copy()
    assert QGuiApplication.clipboard().text() == "edgeopt bench a.onnx"
    assert not tab.nodes.isVisible()


def test_the_button_and_enter_want_its_nodes(qtbot, tab):
    tab.show()
    assert tab.nodes.text() == "Show its node"
    wanted = []
    tab.nodes_requested.connect(lambda each: wanted.append(each.kind))
    qtbot.mouseClick(tab.nodes, Qt.MouseButton.LeftButton)
    qtbot.keyClick(tab.table, Qt.Key.Key_Return)
    assert wanted == ["layout", "layout"]
    qtbot.keyClick(tab.table, Qt.Key.Key_Down)
    qtbot.keyClick(tab.table, Qt.Key.Key_Return)
    assert wanted == ["layout", "layout"], "this one names no nodes"


def test_without_any_it_says_why(tab):
    tab.show()
    tab.set_rows((), "Nothing was found.")
    assert tab.sentence.isVisible()
    assert tab.sentence.text() == "Nothing was found."
    assert not tab.table.isVisible()
    assert tab.told[-1] is None


def test_the_runtime_under_the_cursor_tells_what_it_does_not_run(qtbot):
    tab = Runtimes()
    qtbot.addWidget(tab)
    tab.resize(700, 400)
    rows = (
        CoverageRow("onnxruntime-cpu", "ONNX Runtime, CPU", "1.31.1", 3, 3, (), 0),
        CoverageRow("openvino-cpu", "OpenVINO, CPU", reason="it cannot load the model"),
    )
    tab.set_rows(rows, "")
    tab.show()
    assert tab.facts.groups[0].title == "ONNX Runtime, CPU"
    tab.table.pick("openvino-cpu")
    shown = {fact.name: fact.value for fact in tab.facts.groups[0].facts}
    assert shown["Runs"] == "unknown"
    assert shown["Why"] == "it cannot load the model"


def texts(columns, row):
    return [column.text_of(row) for column in columns]


def test_ports(analysis):
    assert [texts(tables.PORT_COLUMNS, port) for port in tables.ports(analysis)] == [
        ["input", "image", "float32", "[batch, 1, 32, 32]"],
        ["output", "logits", "float32", "[batch, 10]"],
    ]


def test_nodes(analysis):
    conv = next(node for node in analysis.nodes if node.operator == "Conv")
    columns = tables.node_columns(lambda: Totals(2_766_144))
    place = ["8", "Conv", "convolution", "node_conv2d", "[batch, 24, 32, 32]"]
    assert texts(columns, conv) == [*place, "442 k", "16.0 %", "unknown", "", "864 bytes"]


def test_operators(analysis):
    conv = next(row for row in analysis.operators if row.operator == "Conv")
    shown = texts(tables.operator_columns(lambda: totals(analysis)), conv)
    assert shown == ["Conv", "convolution", "9", "2.51 M", "90.9 %", "unknown", "", "37.2 KiB"]


def test_an_operator_of_unknown_cost_is_no_zero():
    odd = OperatorRow("Odd", "mine", 3, unknown=3)
    columns = tables.operator_columns(lambda: Totals(100))
    assert texts(columns, odd) == ["mine.Odd", "unknown", "3", "unknown", "unknown", "unknown", "", ""]
    assert [column.value(odd) for column in columns[3:6]] == [None, None, None]


def test_opportunities(analysis):
    rows = {each.kind: texts(tables.OPPORTUNITY_COLUMNS, each) for each in analysis.opportunities}
    gain, title, _, results = rows["unfused patterns"]
    assert gain.startswith("≤ ")
    assert title == "Batch normalizations go into the weights before them"
    assert results == "stay the same"
    assert rows["quantization"][3] == "change"


def test_runtimes():
    partly = CoverageRow(
        "onnxruntime-cuda", "ONNX Runtime, CUDA", "1.31.1", 80, 83, ("Odd: o", "If: i", "A: a"), 4
    )
    broken = CoverageRow("openvino-cpu", "OpenVINO, CPU", reason="it does not load it")
    assert texts(tables.COVERAGE_COLUMNS, partly)[2:] == ["80 of 83", "4", "Odd: o, If: i, and 1 more"]
    assert texts(tables.COVERAGE_COLUMNS, broken)[2:] == ["unknown", "unknown", "it does not load it"]


def test_the_search_finds_who_makes_and_who_reads_a_tensor(analysis):
    found = [node.position for node in analysis.nodes if "val_0" in tables.searched(node).split("\n")]
    assert found == [0, 1]


def test_weights_with_their_share(analysis):
    rows = tables.weights(analysis)
    told = ["float32", "[64, 64, 1, 1]", "16 KiB", "35.2 %", "-0.311 to 0.281", "", ""]
    assert texts(tables.WEIGHT_COLUMNS, rows[0])[1:] == told


def test_weights_name_the_nodes_that_read_them(analysis):
    rows = tables.weights(analysis, analysis.nodes)
    column = tables.WEIGHT_COLUMNS[-1]
    assert any(reader.startswith("Conv ") for reader in rows[0].readers)
    several = max(rows, key=lambda row: len(row.readers))
    assert column.text_of(several).endswith(f"and {len(several.readers) - 1} more")
    assert len(column.tip(several).splitlines()) == len(several.readers)
    assert sum(row.share for row in rows) == pytest.approx(1.0)


@pytest.fixture
def view(qtbot):
    made = WeightView()
    qtbot.addWidget(made)
    made.resize(400, 300)
    return made


def weight_of(array, readers=("Conv a",)):
    held = content_of(ir.tensor(array))
    row = WeightRow("w", str(array.dtype), array.shape, array.nbytes, array.size)
    known = {"zeros_share": held.zeros_share, "minimum": held.minimum, "maximum": held.maximum}
    return Weight(0, msgspec.structs.replace(row, **known, histogram=held.histogram), 0.25, readers)


def shown(view):
    return {fact.name: fact.value for group in view.facts.groups for fact in group.facts}


def coloured_columns(view):
    """How many pixels of a column differ from the background, from left to right, above the labels."""
    image = view.bars.grab().toImage()
    high = image.height() - view.fontMetrics().height() - 6
    background = image.pixel(0, 0)
    return [sum(image.pixel(x, y) != background for y in range(high)) for x in range(image.width())]


def test_a_weight_shows_its_range_zeros_readers_and_histogram(view):
    values = np.array([-1, 0, 0, 0, 0, 0, 0, 3], np.float32)
    view.show_weight(weight_of(values, ("Conv a", "Gemm b")))
    assert shown(view)["Range"] == "-1 to 3"
    assert shown(view)["Zeros"] == "75.0 %"
    assert [fact.value for fact in view.facts.groups[0].facts if fact.name == "Read by"] == ["Conv a", "Gemm b"]
    assert sum(view.bars.counts) == 8
    assert not view.sample.isVisibleTo(view)
    columns = coloured_columns(view)
    assert columns.index(max(columns)) == pytest.approx(len(columns) / 4, abs=len(columns) / 32)


def test_a_sample_is_said_to_be_one(view):
    view.show_weight(weight_of(np.arange(1 << 20, dtype=np.int64)))
    assert view.sample.text().endswith("of 1,048,576 values, sampled evenly.")


def test_without_a_histogram_it_says_why(view):
    view.show_weight(weight_of(np.ones(4, np.float32)))
    assert view.sample.text() == "All values are equal."
    assert not view.bars.isVisibleTo(view)
    view.show_weight(Weight(0, WeightRow("w", "float32", (4,), 16, 4), 1.0), "nobody looked")
    assert view.sample.text() == "Its values were not read: nobody looked."
    view.show_weight(None)
    assert not view.isVisible()


def test_the_weight_under_the_cursor_is_shown_on_the_page_model(qtbot, open_window, context):
    page = open_window((ENTRY,)).page("model")
    context.open(subject_at(MODEL))
    qtbot.waitUntil(lambda: bool(page.view.weights_table.current and page.view.weights_table.current.readers))
    table, view = page.view.weights_table, page.view.weight
    assert view.title.text() == f"Weight {table.current.row.name}"
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert view.title.text() == f"Weight {table.current.row.name}"
    readers = [fact.value for fact in view.facts.groups[0].facts if fact.name == "Read by"]
    assert readers == list(table.current.readers)
    assert sum(view.bars.counts) == table.current.row.parameters


def test_the_page_graph_shows_the_largest_weight_of_a_node_and_another_on_a_click(qtbot, open_window, context):
    window = open_window((ENTRY, GRAPH))
    window.show_page("graph")
    page = window.page("graph")
    context.open(subject_at(MODEL))
    qtbot.waitUntil(lambda: page.state == "content")
    node = next(each for each in context.nodes if each.operator == "Gemm")
    page.view.pick(node.position)
    _, weight, bias = node.inputs
    assert page.view.weight.title.text() == f"Weight {weight.name}"
    assert sum(page.view.weight.bars.counts)
    link = next(fact.link for fact in page.view.facts.groups[0].facts if fact.value.startswith(bias.name))
    page.view.facts.followed.emit(link)
    assert page.view.weight.title.text() == f"Weight {bias.name}"
    page.view.canvas.select((0,))
    assert not page.view.weight.isVisible()


@pytest.fixture(scope="module")
def bundle_analysis(conv_bundle):
    return analyze(conv_bundle, coverage=False, opportunities=False)


def facts(groups):
    return {(group.title, fact.name): fact for group in groups for fact in group.facts}


def test_the_headline_is_one_line(analysis, bundle_analysis):
    assert words.headline(analysis) == "ONNX, opset 18 · 57.4 KiB · 11,645 parameters · 95 nodes"
    assert words.headline(bundle_analysis).startswith("Bundle · ONNX, opset 17")


def test_the_summary_says_what_is_there_and_leaves_out_what_is_not(analysis):
    shown = facts(words.summary(analysis))
    assert shown["Model", "Weights"].value == "45.5 KiB in 49 tensors"
    assert shown["Model", "Nodes"].value == "95 of 16 types"
    assert shown["Model", "SHA-256"].copy == analysis.digest
    assert shown["One run", "Operations"].value == "2.77 MFLOP, of them 1.26 MMAC"
    assert shown["One run", "For"].value == "batch = 1 (assumed)"
    assert shown["Inputs", "image"].value == "float32 [batch, 1, 32, 32]"
    assert shown["Outputs", "logits"].value == "float32 [batch, 10]"
    assert ("Model", "Functions") not in shown
    assert not any(title == "Deployment" for title, _ in shown)


def test_a_bundle_says_what_runs_and_what_was_proved(bundle_analysis):
    shown = facts(words.summary(bundle_analysis))
    assert shown["Deployment", "Runs with"].value == "onnxruntime-cpu"
    assert shown["Deployment", "Options"].words == ("threads = 1",)
    assert shown["Deployment", "Proof"].value == ("2.00x [1.90 2.10], equal where 30 dB are required")
    assert shown["Deployment", "Made from"].value == "conv.onnx, 2026-01-01"


def test_a_bundle_without_evidence_says_so(bundle_analysis):
    bare = msgspec.structs.replace(bundle_analysis.deployment, speedup=None, speedup_low=None, speedup_high=None)
    shown = facts(words.summary(msgspec.structs.replace(bundle_analysis, deployment=bare)))
    assert "without a measurement" in shown["Deployment", "Proof"].value


def test_many_files_and_ports_are_counted_and_not_all_listed(analysis):
    many = msgspec.structs.replace(
        analysis,
        external_files=tuple(FileRow(f"part{k}.bin", 2**20) for k in range(20)),
        inputs=tuple(TensorFacts(f"past{k}", "float16", None) for k in range(60)),
    )
    values = [fact.value for group in words.summary(many) for fact in group.facts]
    assert "part0.bin, 1 MiB" in values
    assert "and 8 more files" in values
    assert "and 56 more" in values
    assert "float16 ?" in values


def test_bars_are_the_operators_with_their_counts(analysis):
    bars = words.bars(analysis)
    assert [(bar.key, bar.text) for bar in bars[:2]] == [("Expand", "18"), ("Constant", "16")]
    assert sum(bar.value for bar in bars) == 95
    conv = next(bar for bar in bars if bar.key == "Conv")
    assert conv.tip == "Conv: 9 nodes, 9 % of all, 37.2 KiB of weights"


def test_a_node_tells_its_tensors():
    node = NodeRow(
        7,
        "",
        "FusedConv",
        "com.microsoft",
        (
            TensorFacts("x", "float32", ("batch", 3, None)),
            TensorFacts(""),
            *(TensorFacts(f"c{k}") for k in range(20)),
        ),
        (TensorFacts("y", None, ()),),
        864,
        216,
        "loop/body",
    )
    shown = [(fact.name, fact.value) for fact in words.node_facts(node)[0].facts]
    assert shown[:6] == [
        ("Operator", "com.microsoft.FusedConv"),
        ("Name", "none"),
        ("Inside", "loop/body"),
        ("Work", "unknown"),
        ("Input", "x  ·  float32  [batch, 3, ?]"),
        ("Input", "left out  ·  ?  ?"),
    ]
    assert ("Input", "and 10 more") in shown
    assert shown[-2:] == [("Output", "y  ·  ?  []"), ("Weights", "864 bytes, 216 parameters")]


def test_a_bundle_with_several_outputs_says_how_accurate_each_is(bundle_analysis):
    outputs = (ProvedOutput("boxes", 41.26), ProvedOutput("classes", 20.0, 0.975, counted=True), ProvedOutput("s"))
    proved = msgspec.structs.replace(bundle_analysis.deployment, outputs=outputs)
    shown = facts(words.summary(msgspec.structs.replace(bundle_analysis, deployment=proved)))
    values = [shown["Accuracy by output", name].value for name in ("boxes", "classes", "s")]
    assert values == ["41.3 dB", "97.5 % equal", "unknown"]


def test_a_bundle_with_one_output_has_no_rows_for_outputs(bundle_analysis):
    proved = msgspec.structs.replace(bundle_analysis.deployment, outputs=(ProvedOutput("logits", 41.26),))
    shown = facts(words.summary(msgspec.structs.replace(bundle_analysis, deployment=proved)))
    assert not any(title == "Accuracy by output" for title, _ in shown)
