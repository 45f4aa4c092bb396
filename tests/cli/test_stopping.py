"""Ctrl-C in the middle of `analyze`, `simplify` and `compare`."""

import signal

import onnx
import onnx.parser
import psutil
import pytest

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")
TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,8] x) => (float[1,8] y) {
    a = Abs(x)  b = Neg(a)  y = Relu(b) }"""


@pytest.mark.parametrize(
    ("arguments", "moment"),
    [
        (("analyze", "m.onnx", "--json"), '"asking the passes"'),
        (("simplify", "m.onnx", "-o", "out.onnx", "--ledger", "l.json", "--json"), '"passes"'),
        (("compare", "m.onnx", "m.onnx", "--json"), '"run"'),
    ],
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_leaves_no_process_and_no_file(start, tmp_path, arguments, moment, number, code):
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "m.onnx")
    run = start(*arguments)
    run.first_line_with(moment)
    begun = psutil.Process(run.process.pid).children(recursive=True)
    run.process.send_signal(number)
    found, _, err = run.finish()
    assert (found, err) == (code, "")
    assert begun
    assert not psutil.wait_procs(begun, timeout=10)[1]
    assert list(run.temporary.iterdir()) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.onnx", "planted", "temporary"]
