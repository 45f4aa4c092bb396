"""Sides that are language models: when their answers are measured, and after which prompts."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import edgeopt
from edgeopt.commands.bench.bench import bench
from edgeopt.commands.bench.limits import judge
from edgeopt.commands.bench.request import Request
from edgeopt.errors import DataError, UsageError
from edgeopt.events import ignore
from edgeopt.measure.report import Comparison, ContestReport, Limits
from edgeopt.measure.stats import Interval
from edgeopt.measure.workloads.records import ColdReport, GenerateReport, GenerateSide
from tests.bundle.runtime.decoder import HEADS, PAIRS, WIDTH, scripted_weights, write_decoder
from tests.text.tiny import SIZE, TEXT, write_tokenizer

TOKENS = {"prompt_tokens": 6, "new_tokens": 4}


@pytest.fixture
def decoder(tmp_path, monkeypatch):
    monkeypatch.setattr("edgeopt.measure.workloads.generate._SLICE_MS", 1.0)
    return write_decoder(tmp_path / "model.onnx")


@pytest.fixture
def steps(tmp_path):
    """Samples of single runs: a token after three others."""
    cache = dict.fromkeys(PAIRS, np.zeros((8, HEADS, 3, WIDTH), np.float32))
    ids = np.full((8, 1), 5)
    np.savez(tmp_path / "steps.npz", input_ids=ids, position_ids=ids, attention_mask=np.ones((8, 4), int), **cache)
    return tmp_path / "steps.npz"


def asked(model, *against, **more):
    return Request(str(model), tuple(map(str, against)), rounds=7, **{**TOKENS, **more})


def plain(model, **more):
    return asked(model, **{**dict.fromkeys(TOKENS), **more})


def half_cache(path, out):
    """Writes the same decoder with a cache in half precision."""
    model = onnx.load(path)
    for ports in (model.graph.input, model.graph.output):
        for port in ports:
            if port.name in {*PAIRS, *PAIRS.values()}:
                port.type.tensor_type.elem_type = TensorProto.FLOAT16
    nodes = list(model.graph.node)
    renamed = {name: f"{name}.wide" for name in (*PAIRS, *PAIRS.values())}
    for node in nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    before = [helper.make_node("Cast", [name], [renamed[name]], to=TensorProto.FLOAT) for name in PAIRS]
    after = [helper.make_node("Cast", [renamed[name]], [name], to=TensorProto.FLOAT16) for name in PAIRS.values()]
    del model.graph.node[:]
    model.graph.node.extend([*before, *nodes, *after])
    onnx.checker.check_model(model)
    onnx.save(model, out)
    return out


def test_language_models_answer_by_default(decoder, tmp_path):
    other = write_decoder(tmp_path / "other.onnx", seed=1)
    found = bench(asked(decoder, other, duty=None), ignore)
    assert isinstance(found, GenerateReport)
    assert [side.name for side in found.sides] == ["model.onnx", "other.onnx"]
    assert all(side.answers and side.failure is None for side in found.sides)
    assert (found.prompt_tokens, found.new_tokens) == (6, 4)
    assert found.data.endswith("32 prompts of 6 tokens from random tokens")
    assert found.machine


def test_report_names_the_prompts_that_were_answered(decoder, monkeypatch):
    monkeypatch.setattr("edgeopt.measure.workloads.generate._SLICE_MS", 0.0)
    found = bench(asked(decoder), ignore)
    assert (found.sides[0].answers, found.prompts) == (7, 7)
    assert found.data == "7 of 32 prompts of 6 tokens from random tokens"


def test_single_runs_are_measured_on_request_and_on_samples_of_them(decoder, steps):
    for request in (plain(decoder, duty="steady", data=steps), plain(decoder, data=steps)):
        found = bench(request, ignore)
        assert isinstance(found, ContestReport)
        assert found.sides[0].figures is not None
    assert isinstance(bench(plain(decoder, duty="cold", data=steps), ignore), ColdReport)


def test_python_measures_answers_by_name_only(decoder, steps):
    assert isinstance(edgeopt.bench(decoder, data=steps, rounds=6), ContestReport)
    assert isinstance(edgeopt.bench(decoder, duty="generate", rounds=7, **TOKENS), GenerateReport)
    with pytest.raises(UsageError, match="--prompt-tokens needs --duty generate"):
        edgeopt.bench(decoder, data=steps, prompt_tokens=4)


def test_caches_of_two_types_are_compared(decoder, tmp_path):
    half = half_cache(decoder, tmp_path / "half.onnx")
    found = bench(asked(decoder, half), ignore)
    assert [side.failure for side in found.sides] == [None, None]
    assert [(each.first, each.second) for each in found.comparisons] == [("model.onnx", "half.onnx")]


def test_model_against_itself_is_not_compared(decoder):
    (comparison,) = bench(asked(decoder, decoder), ignore).comparisons
    assert comparison.verdict == "identical"


def test_prompts_are_those_of_the_data(decoder, tmp_path):
    write_decoder(decoder, held=scripted_weights({}, SIZE))
    write_tokenizer(tmp_path / "model.text")
    (tmp_path / "own.txt").write_text(TEXT * 8, encoding="utf-8")
    found = bench(asked(decoder, data=tmp_path / "own.txt", duty=None), ignore)
    assert found.data.endswith("prompts of 6 tokens from own.txt")
    np.savez(tmp_path / "ids.npz", input_ids=np.arange(60).reshape(5, 12) % 29)
    found = bench(asked(decoder, data=tmp_path / "ids.npz", duty="generate"), ignore)
    assert found.data == "5 prompts of 6 tokens from ids.npz"
    (tmp_path / "own.txt").write_text("The cat.", encoding="utf-8")
    with pytest.raises(DataError, match="at least 4 are needed"):
        bench(asked(decoder, data=tmp_path / "own.txt"), ignore)


def test_steps_of_the_cache_are_not_prompts(decoder, steps):
    found = bench(asked(decoder, data=steps, duty="generate"), ignore)
    assert found.data.endswith("32 prompts of 6 tokens from random tokens")
    assert "'steps.npz' has steps of the cache, not texts" in found.warnings[0]


def test_other_models_do_not_answer(conv_model, decoder):
    assert isinstance(bench(plain(conv_model), ignore), ContestReport)
    for request in (plain(conv_model, duty="generate"), asked(conv_model)):
        with pytest.raises(UsageError, match="needs language models with a cache"):
            bench(request, ignore)
    with pytest.raises(UsageError, match=r"which 'python x\.py' is not"):
        bench(asked(decoder, baseline_command="python x.py"), ignore)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"duty": "paced", "rate_per_s": 3}, "--prompt-tokens needs --duty generate"),
        ({"duty": "generate", "counters": True}, "--counters is for interleaved contests"),
        ({"duty": "generate", "sweep": "threads"}, "exclude each other"),
        ({"duty": "generate", "pre": "pictures.toml"}, "--pre is for models that take pictures"),
        ({"duty": None, "counters": True}, "--prompt-tokens needs --duty generate"),
        ({"duty": None, "sweep": "threads"}, "--prompt-tokens needs --duty generate"),
        ({"duty": None, "concurrency": "1,2"}, "--prompt-tokens needs --duty generate"),
        ({"duty": None, "pre": "pictures.toml"}, "--prompt-tokens needs --duty generate"),
        ({"duty": None, "data": Path("steps.npz")}, "--prompt-tokens needs --duty generate"),
    ],
)
def test_options_without_effect_are_refused(decoder, more, says):
    with pytest.raises(UsageError, match=says):
        bench(asked(decoder, **more), ignore)


def test_limits_judge_tokens_per_second():
    sides = (GenerateSide("a", 9), GenerateSide("b", 9))
    faster = Comparison("a", "b", Interval(1.5, 1.4, 1.6, 9), "faster")
    found = GenerateReport(sides=sides, prompt_tokens=6, new_tokens=4, comparisons=(faster,))
    (check,) = judge(found, Limits(min_speedup=1.2)).checks
    assert check.state == "held"
    assert check.measured == "tokens per second"
