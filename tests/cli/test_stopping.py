"""Ctrl-C in the middle of `analyze`, `simplify` and `compare`."""

import signal

import onnx
import onnx.parser
import psutil
import pytest

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")
TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,8] x) => (float[1,8] y) {
    a = Abs(x)  b = Neg(a)  y = Relu(b) }"""


# Both signals end a command in one way, which test_console tries with each of them.
@pytest.mark.parametrize(
    ("arguments", "moment", "number", "code"),
    [
        (("analyze", "m.onnx", "--json"), '"trying the passes"', signal.SIGINT, 130),
        (
            ("simplify", "m.onnx", "-o", "out.onnx", "--ledger", "l.json", "--json"),
            '"passes"',
            signal.SIGTERM,
            143,
        ),
        (("compare", "m.onnx", "m.onnx", "--json"), '"run"', signal.SIGINT, 130),
    ],
)
def test_it_leaves_no_process_and_no_file(start, ends, tmp_path, arguments, moment, number, code):
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "m.onnx")
    run = start(*arguments)
    run.first_line_with(moment)
    begun = psutil.Process(run.process.pid).children(recursive=True)
    run.process.send_signal(number)
    found, _, err = run.finish()
    assert (found, err) == (code, "")
    assert begun
    assert ends(*(child.pid for child in begun))
    assert list(run.temporary.iterdir()) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.onnx", "temporary"]
