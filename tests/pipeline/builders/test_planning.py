import time
from contextlib import closing

import numpy as np
import onnx
import pytest

from edgeopt.bundle.deployment import Step
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.request import ReplayRequest
from edgeopt.commands.optimize import optimize
from edgeopt.data.judging.goals import Goal
from edgeopt.data.samples import Samples, save_samples
from edgeopt.pipeline.builders.messages import Made, Make, Planning
from edgeopt.pipeline.builders.variants import BuildWorker, make_all
from edgeopt.pipeline.replay import replay
from edgeopt.profiles.targets import profile_for
from edgeopt.quant.measured.timing.configs import ExecutionConfig
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.schemes import SCHEMES
from edgeopt.workers.host import LocalHost
from tests.conftest import this_device, write_onnx

pytestmark = pytest.mark.slow

ORT = "onnxruntime-cpu"
# Where eight-bit products are many times quicker, so that a plan must find them.
QUICK_EIGHT_BITS = frozenset({"avx512-vnni", "avx-vnni"})
LATE = "not ready within the time limit; a longer one allows it"
COVERED = "not made: the plan already timed this precision for every layer"
PROFILE = """
name = "planning"
title = "A plan, and what it replaces"
extends = "generic-cpu"
[precision]
ladder = ["source", "cleaned", "planned", "int8"]
[backends]
order = ["onnxruntime-cpu"]
"""
# What calibrates and plans is read, the rest belongs to the proof.
CALIBRATE, CHECK, ALL = 8, 9, 24


@pytest.fixture(scope="module")
def products(models):
    """Two matrix products, large enough to gain from fewer bits."""
    rng = np.random.default_rng(3)
    weights = {n: rng.standard_normal((512, 512)).astype(np.float32) / 16 for n in ("first", "second")}
    nodes = [
        ("MatMul", ["x", "first"], ["m"], {}),
        ("Relu", ["m"], ["r"], {}),
        ("MatMul", ["r", "second"], ["y"], {}),
    ]
    return write_onnx(models / "products.onnx", nodes, weights, {"x": [64, 512]}, {"y": [64, 512]})


@pytest.fixture(scope="module")
def data(models):
    path = models / "products.npz"
    np.savez(path, x=np.random.default_rng(4).standard_normal((ALL, 64, 512)).astype(np.float32))
    return path


def planned(folder, model, samples, floor_db, limit_s=20.0):
    """One plan, as a search asks for it."""
    save_samples(samples, folder / "samples")
    out = folder / "variants/planned/model.onnx"
    out.parent.mkdir(parents=True)
    planning = Planning(
        (ExecutionConfig(ORT, {"threads": 1}),),
        Goal(floor=floor_db, budget=""),
        limit_s,
        profile_for(this_device()),
    )
    job = Make(
        *(Step("planned"), str(model), str(model), str(out), str(folder / "samples"), CALIBRATE, CHECK, CALIBRATE),
        settings=QuantSettings(),
        planning=planning,
    )
    worker = BuildWorker(LocalHost(folder))
    with closing(worker.client):
        return next(make_all([worker], [job], time.monotonic() + 60))[1]


def opened(path):
    with np.load(path) as archive:
        return Samples({"x": archive["x"]}, {"x": 2})


@pytest.fixture(scope="module")
def found(tmp_path_factory, products, data):
    return planned(tmp_path_factory.mktemp("planned"), products, opened(data), 20.0)


def test_a_plan_is_a_model_of_its_own_with_the_options_that_it_holds_with(found):
    assert isinstance(found, Made)
    assert found.plans.covered == (ORT,)
    if not QUICK_EIGHT_BITS & set(this_device().cpu.simd):
        pytest.skip("eight bits may not pay on this processor")
    (variant,) = found.plans.variants
    assert (variant.backend, variant.options) == (ORT, {"threads": 1})
    assert set(variant.step.forms) <= {form.name for form in SCHEMES}
    onnx.checker.check_model(onnx.load(variant.path))
    (entry,) = variant.ledger
    told = [*entry.applied, *entry.refused]
    assert {node for one in told for node in one.nodes} == {"MatMul_0", "MatMul_2"}
    assert len(entry.applied) == sum(len(layers) for layers in variant.step.forms.values())
    assert entry.snr_db >= entry.tolerance_db == 20


def test_what_no_layer_can_reach_is_no_plan_and_says_why(tmp_path, products, data):
    found = planned(tmp_path, products, opened(data), 150.0, limit_s=40.0)
    assert not found.plans.variants
    assert found.plans.covered == (ORT,)
    assert found.plans.reason.startswith(("No layer can be quantized within 150 dB.", "Nothing is gained"))


def test_a_model_without_products_says_so(tmp_path, relu_model):
    rows = np.random.default_rng(1).standard_normal((ALL, 1, 4)).astype(np.float32)
    found = planned(tmp_path, relu_model, Samples({"x": rows}, {"x": 2}), 30.0)
    assert found.plans.reason == "No plan possible: it has no product with weights (Conv, MatMul, Gemm)."


@pytest.fixture(scope="module")
def searched(tmp_path_factory, products, data):
    folder = tmp_path_factory.mktemp("searched")
    profile = folder / "planning.toml"
    profile.write_text(PROFILE)
    begin = time.monotonic()
    outcome = optimize(products, folder / "out.edgeopt", data=data, floor=20.0, profile=profile, time_limit_s=20)
    return outcome, time.monotonic() - begin, folder / "out.edgeopt"


@pytest.mark.timing
def test_a_search_races_the_plan_and_spares_what_it_covers(searched):
    outcome, seconds, _ = searched
    by_name = {variant.name: variant for variant in outcome.variants}
    assert set(by_name) == {"source", "cleaned", "planned", "int8"}
    plan, uniform = by_name["planned"].failure, by_name["int8"].failure
    assert (uniform == COVERED) != (plan == LATE)
    raced = [one for one in outcome.candidates if one.candidate.variant == "planned"]
    assert bool(raced) != bool(plan)
    assert seconds < 20 + 10


@pytest.mark.slow
def test_a_bundle_of_a_plan_says_which_layer_has_which_form(searched, products, tmp_path):
    outcome, _, bundle = searched
    if outcome.winner.variant != "planned":
        pytest.skip("another candidate was quicker here")
    step = read_bundle(bundle).deployment.steps[-1]
    assert step.recipe == "planned"
    assert step.forms.keys() <= {form.name for form in SCHEMES}
    assert {layer for layers in step.forms.values() for layer in layers} <= {"MatMul_0", "MatMul_2"}
    assert any(step.forms.values())
    assert replay(ReplayRequest(bundle, products, tmp_path / "again.edgeopt")).same_files
