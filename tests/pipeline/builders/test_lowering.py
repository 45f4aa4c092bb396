import numpy as np
import onnx
import pytest

from edgeopt.backends import NAMES, backend_named, lowering_names
from edgeopt.bundle.deployment import Step
from edgeopt.commands.optimize import optimize
from edgeopt.data.samples import Samples
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.pipeline.builders.cleaning import lower, lowered_variants, lowerings_of
from edgeopt.pipeline.builders.messages import BuildTask
from edgeopt.pipeline.outcome import Candidate
from edgeopt.profiles import load_profile, profiles_folder
from edgeopt.quant.records import QuantSettings
from tests.families import transformers
from tests.families.exporter import feeds_of

TABLES = """
name = "mine"
title = "Mine"
extends = "generic-cpu"
[backends]
order = ["onnxruntime-cuda", "onnxruntime-xnnpack", "openvino-cpu", "onnxruntime-cpu"]
[lowerings]
onnxruntime-cuda = ["ort-gelu", "ort-skip-normalization"]
onnxruntime-xnnpack = ["ort-gelu"]
onnxruntime-cpu = ["ort-gelu"]
onnxruntime-qnn = ["ort-gelu"]
"""


@pytest.fixture
def task(tmp_path):
    """Lays out one sample of a model, to be lowered by what is listed."""

    def lay_out(model, feeds, *lowerings):
        samples = Samples({k: v[None] for k, v in feeds.items()}, {k: v.ndim for k, v in feeds.items()})
        return BuildTask(
            model, model, tmp_path / "out.onnx", samples, None, QuantSettings(),
            Step("lowered", {"lowerings": list(lowerings)}), backends=("onnxruntime-cpu",),
        )  # fmt: skip

    return lay_out


@pytest.fixture
def bert(tmp_path):
    model = transformers.bert(opset=17)
    onnx.save(model, tmp_path / "bert.onnx")
    return tmp_path / "bert.onnx", feeds_of(model)


def answers(path, feeds):
    session = backend_named("onnxruntime-cpu").load(path, {})
    try:
        return [session.run(feeds)]
    finally:
        session.close()


@pytest.mark.parametrize("backend", NAMES)
def test_each_stands_where_the_registry_says(backend):
    assert lowering_names(backend) == tuple(one.name for one in lowerings_of(backend))


def test_it_is_made_once_for_all_backends_with_the_same_list(tmp_path):
    (tmp_path / "mine.toml").write_text(TABLES)
    found = lowered_variants(load_profile(tmp_path / "mine.toml"))
    assert [(one.backends, one.lowerings) for one in found] == [
        (("onnxruntime-cuda",), ("ort-gelu", "ort-skip-normalization")),
        (("onnxruntime-xnnpack", "onnxruntime-cpu"), ("ort-gelu",)),
    ]
    assert {one.title for one in found} == {"operators specific to ONNX Runtime"}


def test_every_cpu_target_lists_some():
    for path in profiles_folder().glob("*.toml"):
        profile = load_profile(path)
        assert lowered_variants(profile) or "lowered" not in profile.precision.ladder, path.name


def test_what_the_profile_lists_is_applied_in_its_order(bert, task):
    model, feeds = bert
    names = ("ort-attention", "ort-gelu", "ort-transformers")
    work = task(model, feeds, *names)
    ledger = lower(work)
    assert tuple(entry.pass_name for entry in ledger) == names
    lowered = onnx.load(work.out)
    operators = {node.op_type for node in lowered.graph.node}
    assert {"MultiHeadAttention", "BiasGelu"} <= operators
    assert not operators & {"Softmax", "SkipLayerNormalization"}
    # With shapes at hand, ONNX Runtime joins normalizations and additions when it loads, which is slower.
    assert not lowered.graph.value_info
    assert compare_outputs(answers(model, feeds), answers(work.out, feeds)).snr_db > 80


@pytest.mark.slow
def test_a_search_races_it_and_keeps_its_ledger(bert, tmp_path):
    model, _ = bert
    profile = tmp_path / "two.toml"
    profile.write_text(
        'name = "two"\ntitle = "Two"\nextends = "generic-cpu"\n[precision]\nladder = ["source", "lowered"]\n'
        '[backends]\norder = ["onnxruntime-cpu"]\n[search]\nmax_candidates = 2\n'
    )
    outcome = optimize(model, tmp_path / "out.edgeopt", profile=profile, time_limit_s=30)
    (made,) = (variant for variant in outcome.variants if variant.name == "lowered")
    assert (made.failure, made.title) == (None, "operators specific to ONNX Runtime")
    assert {entry.pass_name for entry in made.ledger if entry.applied} >= {"ort-attention", "ort-gelu"}
    raced = [report.candidate for report in outcome.candidates if report.candidate.variant == "lowered"]
    assert {candidate.backend for candidate in raced} == {"onnxruntime-cpu"}
    assert made.is_of(raced[0])
    assert not made.is_of(Candidate("lowered", "openvino-cpu"))


def test_where_nothing_applied_it_says_why_and_writes_nothing(relu_model, task):
    work = task(relu_model, {"x": np.ones((1, 4), np.float32)}, "ort-transformers", "ort-gelu")
    with pytest.raises(ModelError) as caught:
        lower(work)
    assert caught.value.message == (
        "No lowering applied: ort-transformers: the model has no attention: no Softmax between two products. "
        "No match for ort-gelu."
    )
    assert not work.out.exists()


def test_one_that_changes_the_results_is_rolled_back(bert, task, monkeypatch):
    """Planted: a lowering that doubles what the model says."""
    from dataclasses import replace

    import onnx_ir as ir

    from edgeopt.backends.onnxruntime import lowering
    from edgeopt.graph.ledger import Change
    from edgeopt.graph.passes.base import PassResult

    def double(model, _):
        model = model.clone()
        node = next(n for n in model.graph if n.op_type == "Softmax")
        twice = ir.node("Add", [node.inputs[0], node.inputs[0]])
        model.graph.insert_before(node, twice)
        node.replace_input_with(0, twice.outputs[0])
        return PassResult(model, (Change("doubled the scores"),))

    first, *others = lowering.lowerings()
    wrong = replace(first, apply=double)
    monkeypatch.setattr(lowering, "lowerings", lambda: (wrong, *others))
    model, feeds = bert
    ledger = lower(task(model, feeds, wrong.name, "ort-gelu"))
    (undone,) = (entry for entry in ledger if entry.rolled_back)
    assert undone.pass_name == wrong.name
    assert "changes the results" in undone.rolled_back
    assert [entry.pass_name for entry in ledger if entry.applied] == ["ort-gelu"]
