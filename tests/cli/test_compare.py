import json
import re

import numpy as np
import onnx
import onnx.parser
import pytest
import typer
from typer.testing import CliRunner

from edgeopt.cli.compare import compare

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")


@pytest.fixture
def command():
    """Runs `edgeopt compare` in this process: exit code, standard output."""
    application = typer.Typer()
    application.command()(compare)

    def run(*arguments):
        result = CliRunner().invoke(application, [str(a) for a in arguments], catch_exceptions=False)
        return result.exit_code, result.stdout

    return run


@pytest.fixture
def model(tmp_path):
    def write(name, factor=2.0, body="a = Mul(x, w)  b = Tanh(a)  y = Relu(b)"):
        text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[1,4] x) => (float[1,4] y) {{ {body} }}'
        proto = onnx.parser.parse_model(text)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full(4, factor, np.float32), "w"))
        onnx.save(proto, tmp_path / f"{name}.onnx")
        return tmp_path / f"{name}.onnx"

    return write


def test_equal_models_leave_with_0_and_say_so(command, model):
    code, text = command(model("a"), model("b"))
    assert code == 0
    assert re.search(r"Equal in every value on \d+ samples, generated\.", text)
    assert "Nodes: 3 kept." in text


def test_random_numbers_of_a_model_are_named(command, model):
    path = model("a", body="r = RandomNormalLike(x)  a = Mul(r, w)  y = Relu(a)")
    assert (
        "draws random numbers (1 RandomNormalLike): another run may give other outputs" in command(path, path)[1]
    )


def test_different_models_leave_with_6_and_name_the_layer_and_the_tolerance(command, model):
    code, text = command(model("a"), model("b", 2.02))
    assert code == 6
    assert "The first layer that differs: Mul 'a'" in text
    assert "rtol=" in text
    assert "Different: " in text
    assert "other weights (input 1)" in text


def test_a_lower_floor_lets_them_pass(command, model):
    code, text = command(model("a"), model("b", 2.02), "--floor", "20")
    assert code == 0
    assert "Equal within the floor" in text


def test_the_json_result_is_complete(command, model):
    code, text = command(model("a"), model("b", 2.02), "--json")
    result = json.loads(text.strip().splitlines()[-1])
    assert (code, result["kind"], result["data"]["within"]) == (6, "compare", False)
    assert result["data"]["layers"]["first"]["value"] == "a"
    assert result["data"]["outputs"][0]["tolerance"]["atol_alone"] > 0
    assert result["data"]["graph"]["kept"] == 2


def test_markdown_is_a_document_with_tables(command, model):
    _, text = command(model("a"), model("b", 2.02, "a = Mul(x, w)  y = Tanh(a)"), "--markdown")
    assert text.startswith("# a.onnx and b.onnx\n")
    assert "| Relu | 1 | 0 |" in text
    assert "## Graphs" in text


def test_what_goes_wrong_is_a_sentence(command, model, tmp_path):
    code, text = command(model("a"), tmp_path / "nothing.onnx", "--json")
    assert (code, json.loads(text.strip().splitlines()[-1])["event"]) == (3, "error")
    code, text = command(model("a"), model("b"), "--backend", "onnxruntime-gpu", "--json")
    assert code == 2


def test_outputs_without_numbers_are_not_called_equal(command, model):
    first = model("a", body="a = Abs(x)  b = Neg(a)  c = Sub(b, w)  y = Sqrt(c)")
    code, text = command(first, first)
    assert code == 0
    assert "The output 'y' is NaN or infinity everywhere" in text
    assert "All outputs are NaN, infinite, empty or zero on" in text
    assert "Equal" not in text
