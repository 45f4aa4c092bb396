import json

import numpy as np
import onnx
import onnx.parser
import pytest
import typer
from typer.testing import CliRunner

from edgeopt.cli.simplify import simplify

TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[B,2] x) => (float[B,2] y) {
    one = Constant <value_float = 1.0> ()  two = Add(one, one)  a = Mul(x, two)  b = Identity(a)  y = Relu(b) }"""


@pytest.fixture
def command(tmp_path):
    """Runs `edgeopt simplify` in this process: exit code, standard output, standard error."""
    application = typer.Typer()
    application.command()(simplify)

    def run(*arguments):
        result = CliRunner().invoke(application, [str(a) for a in arguments], catch_exceptions=False)
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


def last(output):
    return json.loads(output.strip().splitlines()[-1])


@pytest.fixture
def runtime():
    pytest.importorskip("onnxruntime", reason="verification runs on ONNX Runtime")


@pytest.mark.usefixtures("runtime")
def test_writes_a_smaller_model_and_proves_it(command, source, tmp_path):
    before = source.read_bytes()
    code, output, _ = command(source, "-o", tmp_path / "out.onnx")
    assert code == 0
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["Mul", "Relu"]
    assert "5 nodes → 2" in output
    assert "equal to the last bit" in output
    assert "fold-constants" in output
    assert source.read_bytes() == before


@pytest.mark.usefixtures("runtime")
def test_the_json_result_holds_the_ledger(command, source, tmp_path):
    np.savez(tmp_path / "data.npz", x=np.ones((3, 1, 2), np.float32))
    code, output, _ = command(
        source, "-o", tmp_path / "out.onnx", "--json", "--bisect", "--data", tmp_path / "data.npz"
    )
    result = last(output)
    assert (code, result["event"], result["kind"]) == (0, "result", "simplify")
    assert result["data"]["samples"] == 3
    assert result["data"]["snr_db"] == 200.0
    (folded,) = (e for e in result["data"]["ledger"] if "fold-constants" in e.values())
    assert folded["snr_db"] == 200.0
    assert folded["nodes_before"] - folded["nodes_after"] == 3


def test_only_and_skip_choose(command, source, tmp_path):
    command(source, "-o", tmp_path / "one.onnx", "--only", "identities")
    assert "Identity" not in [n.op_type for n in onnx.load(tmp_path / "one.onnx").graph.node]
    assert "Constant" in [n.op_type for n in onnx.load(tmp_path / "one.onnx").graph.node]


def test_without_a_runtime_the_result_is_written_and_said_to_be_unproved(command, source, tmp_path, monkeypatch):
    import dataclasses

    import edgeopt.backends
    from edgeopt.backends import null
    from edgeopt.hw.device import Unavailable

    missing = dataclasses.replace(null.BACKEND, available=lambda: Unavailable("it is not installed", "cpu"))
    monkeypatch.setattr(edgeopt.backends, "backend_named", lambda _: missing)
    code, output, _ = command(source, "-o", tmp_path / "out.onnx")
    assert code == 0
    assert "Not verified" in output
    assert "it is not installed" in output
    assert (tmp_path / "out.onnx").exists()


WRONG = (
    (("model.onnx", "-o", "model.onnx"), 2, "would overwrite the source"),
    (("model.onnx", "-o", "out.onnx", "--only", "fold-constant"), 2, "did you mean 'fold-constants'"),
    (("model.onnx", "-o", "missing/out.onnx"), 2, "does not exist"),
    (("nothing.onnx", "-o", "out.onnx"), 3, "There is no file"),
    (("model.onnx", "-o", "out.onnx", "--data", "nothing.npz"), 3, "There is no data"),
)


@pytest.mark.parametrize(("arguments", "wanted", "said"), WRONG)
@pytest.mark.usefixtures("runtime")
def test_what_goes_wrong_is_one_sentence_and_an_exit_code(
    command, source, tmp_path, monkeypatch, arguments, wanted, said
):
    monkeypatch.chdir(tmp_path)
    code, output, _ = command(*arguments, "--json")
    assert code == wanted
    assert said in last(output)["message"]
    assert not (tmp_path / "out.onnx").exists()
