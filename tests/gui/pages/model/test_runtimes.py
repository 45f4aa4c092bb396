from edgeopt.graph.analysis import CoverageRow
from edgeopt_gui.pages.model.runtimes import Runtimes


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
