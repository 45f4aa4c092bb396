import json
import signal

import msgspec
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.cli.main import run
from edgeopt.commands.ops.case import Report
from edgeopt.data import demo as samples

HERE = ("--backend", "onnxruntime-cpu")


@pytest.fixture
def ops(capsys, monkeypatch, tmp_path, make_cache):
    make_cache(tmp_path / "cache/edgeopt")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*arguments, code=0):
        assert run(["ops", *map(str, arguments)]) == code
        return capsys.readouterr()

    return call


def report_of(out):
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["kind"]) == ("result", "ops")
    return msgspec.convert(last["data"], Report)


def test_the_record_is_complete_and_the_second_time_it_is_there_at_once(ops):
    first = report_of(ops(*HERE, "--only", "Relu,squeeze", "--quick", "--json").out)
    assert {case.operator for case in first.cases} == {"Relu", "Squeeze"}
    assert first.measured == len(first.cases) == 5
    assert first.counts["onnxruntime-cpu"]["conforms"] == 5
    second = report_of(ops(*HERE, "--only", "Relu,Squeeze", "--quick", "--json").out)
    assert second.measured == 0
    assert second.cases == first.cases
    again = report_of(ops(*HERE, "--only", "Squeeze", "--quick", "--again", "--json").out)
    assert again.measured == len(again.cases) == 2


def test_people_get_a_matrix_with_a_legend_and_a_summary(ops):
    out = ops(*HERE, "--only", "Relu", "--quick").out
    for wanted in (
        "onnxruntime-cpu",
        "fp16",
        "int8",
        "Relu ",
        "✓ ",
        "○ not supported",
        "3 of 3 cases conform (100 %)",
    ):
        assert wanted in out
    assert "edgeopt probe --deep" in out


def test_what_does_not_conform_is_named_with_its_error(ops):
    out = ops("--backend", "openvino-cpu", "--only", "Pad", "--quick").out
    assert "2 results do not conform" in out
    assert "○ openvino-cpu: Pad wrap fp32 (small): not supported: OpenVINO cannot read" in out


def test_the_matrix_as_markdown(ops):
    lines = ops(*HERE, "--only", "Relu", "--quick", "--markdown").out.splitlines()
    assert lines[0] == "| operator | onnxruntime-cpu fp32 | onnxruntime-cpu fp16 | onnxruntime-cpu int8 |"
    assert lines[1] == "|---|---|---|---|"
    assert lines[2].startswith("| Relu | ✓ ")


def test_a_model_is_looked_at_through_its_operators(ops):
    out = ops(samples.MODEL, *HERE, "--quick").out
    assert "digits_cnn.onnx" in out
    assert "✓ conforms" in out
    assert "onnxruntime-cpu: runs all" in out
    assert "there is only one backend to compare" in out
    assert "Conv depth-wise " in out
    assert "LSTM" not in out


def test_a_backend_that_is_not_here_stands_beside_the_others_with_its_reason(ops):
    told = ops(*HERE, "--backend", "onnxruntime-cuda", "--only", "Relu", "--quick").out
    assert "onnxruntime-cuda: not available: " in told
    error = ops("--backend", "onnxruntime-cuda", "--only", "Relu", code=5).err
    assert "No backend can be tested: onnxruntime-cuda: " in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "Cnov"), "Did you mean 'Conv'?"),
        (("--backend", "onnxruntime"), "no backend 'onnxruntime'"),
        (("--backend", "null"), "runs no ONNX models"),
        (("--markdown", "--json"), "exclude each other"),
        (("m.onnx", "--only", "Conv"), "Give one of them."),
    ],
)
def test_wrong_usage_is_a_sentence_with_a_next_step(ops, arguments, said):
    told = ops(*arguments, code=2)
    assert said in told.err + told.out


def test_a_model_without_any_operator_of_the_cases_is_told_so(ops, tmp_path):
    port = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Mine", ["x"], ["y"], domain="my.own")], "own", port[:1], port[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.own", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "own.onnx")
    error = ops(tmp_path / "own.onnx", *HERE, code=3).err
    assert "No operator of 'own.onnx' has a test." in error
    assert "edgeopt analyze MODEL" in error


@pytest.mark.slow
def test_cancelling_keeps_what_is_done(start, tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = ("ops", *HERE, "--only", "Relu,Abs", "--json")
    started = start(*command, **cache)
    started.first_line_with('"done":3')
    started.process.send_signal(signal.SIGINT)
    code, out, _ = started.finish()
    assert code == 130
    assert "are kept" in out
    assert not list(started.temporary.glob("edgeopt*"))
    _, out, _ = start(*command, **cache).finish(120)
    found = report_of(out)
    assert 0 < found.measured <= len(found.cases) - 3


def test_of_a_model_only_flaws_of_its_own_forms_are_named(ops, tmp_path):
    """OpenVINO does not know the mode `wrap`; this model pads with constants."""
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 11, 11])],
        [helper.make_tensor("pads", TensorProto.INT64, [8], [0, 0, 1, 1, 0, 0, 1, 1])],
    )
    model = tmp_path / "pads.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), model)
    out = ops(model, "--backend", "openvino-cpu", "--quick").out
    assert "Pad constant  fp32" in out
    assert "✓ conforms" in out
    assert "wrap" not in out
