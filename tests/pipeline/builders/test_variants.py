import dataclasses
import os
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.backends import BACKENDS
from edgeopt.bundle.deployment import Step
from edgeopt.data.judging.goals import Goal
from edgeopt.data.samples import Samples, open_samples, save_samples
from edgeopt.data.split import split
from edgeopt.errors import ModelError
from edgeopt.graph.model import load
from edgeopt.graph.passes.algebra import operator_forms
from edgeopt.pipeline.builders.inspect import describe
from edgeopt.pipeline.builders.messages import MAPPED, Made, Make
from edgeopt.pipeline.builders.variants import BuildWorker, Variants, inspect, make_all
from edgeopt.pipeline.context import open_context
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.plans import gathering as gathering_module
from edgeopt.pipeline.plans.gathering import PlanTerms, VariantBuilder
from edgeopt.pipeline.plans.recipes import RECIPES, BuildInputs
from edgeopt.pipeline.race import race
from edgeopt.pipeline.race.race import variant_parts
from edgeopt.pipeline.stopping import SearchClock, Stop, StopControl
from edgeopt.profiles.targets import profile_for
from edgeopt.quant.records import QuantSettings
from edgeopt.workers.host import LocalHost
from tests.conftest import this_device


@pytest.fixture
def workers(tmp_path):
    with ExitStack() as stack:

        def start(count):
            found = [BuildWorker(LocalHost(tmp_path)) for _ in range(count)]
            for worker in found:
                stack.callback(worker.client.close)
            return found

        yield start


@pytest.fixture
def job(tmp_path, conv_model, conv_samples):
    """What a search asks a worker for."""
    save_samples(conv_samples, tmp_path / "samples")

    def ask(recipe, **changes):
        out = tmp_path / "variants" / recipe / "model.onnx"
        out.parent.mkdir(parents=True, exist_ok=True)
        parts = {
            "step": Step(recipe),
            "source_path": str(conv_model),
            "base_path": str(conv_model),
            "out_path": str(out),
            "samples_path": str(tmp_path / "samples"),
            "check_first": 8,
            "check_count": 4,
            "calibration_count": 8,
            "settings": QuantSettings(),
            "backends": ("onnxruntime-cpu",),
        }
        return Make(**{**parts, **changes})

    return ask


@pytest.fixture
def conv_samples(conv_data):
    import numpy as np

    with np.load(conv_data) as archive:
        return Samples({"x": archive["x"]}, {"x": 4})


def soon():
    return time.monotonic() + 60


def answers(found):
    return {job.recipe: made if isinstance(made, Made) else made.message for job, made in found}


def test_each_is_made_and_says_how(workers, job):
    jobs = [job("cleaned"), job("int8"), job("int8-dynamic")]
    found = answers(make_all(workers(2), jobs, soon()))
    assert set(found) == {"cleaned", "int8", "int8-dynamic"}
    for one in jobs:
        made = found[one.recipe]
        path = made.plans.variants[0].path if made.plans else one.out_path
        assert Path(path).stat().st_size > 1000
        assert made.seconds > 0
    assert "fold-constants" in {entry.pass_name for entry in found["cleaned"].ledger if entry.applied}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"samples_path": "/nowhere"}, "names"),
        ({"source_path": "/nowhere.onnx", "base_path": "/nowhere.onnx"}, "nowhere.onnx"),
    ],
    ids=["no samples", "no model"],
)
def test_one_that_fails_says_why_and_the_others_go_on(workers, job, changes, says):
    found = answers(make_all(workers(1), [job("int8", **changes), job("int8-dynamic")], soon()))
    assert isinstance(found.pop("int8-dynamic"), Made)
    (reason,) = found.values()
    assert says in reason


@pytest.mark.processes
def test_a_worker_that_dies_is_a_stated_failure_and_the_others_go_on(workers, job):
    (worker,) = workers(1)
    os.kill(worker.client.child.pid, signal.SIGKILL)
    found = answers(make_all([worker], [job("int8"), job("int8-dynamic")], soon()))
    assert found["int8"].startswith("was killed by the system, perhaps for memory")
    assert isinstance(found["int8-dynamic"], Made)


@pytest.mark.processes
def test_what_is_not_ready_by_the_deadline_is_given_up(workers, job):
    """A worker that is stopped never answers; nobody waits for it, and nothing is begun after the deadline."""
    (worker,) = workers(1)
    os.kill(worker.client.child.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 0.3
    found = answers(make_all([worker], [job("int8"), job("int8-dynamic")], deadline))
    assert len(found) == 2
    assert all("time limit" in reason for reason in found.values())
    again = answers(make_all([worker], [job("cleaned")], deadline))
    assert "time limit" in again["cleaned"]


@pytest.mark.processes
def test_what_is_not_ready_when_it_is_told_to_stop_is_given_up(workers, job):
    (worker,) = workers(1)
    os.kill(worker.client.child.pid, signal.SIGSTOP)
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    for _ in range(2):  # while one is made, and before any is
        found = answers(make_all([worker], [job("int8"), job("cleaned")], soon(), stop=stop))
        assert found == dict.fromkeys(("int8", "cleaned"), "not ready when the search was stopped")


def test_inspecting_says_what_the_model_is_and_makes_samples(workers, conv_model, tmp_path):
    (worker,) = workers(1)
    facts = inspect(worker.client, conv_model, tmp_path / "generated", 5)
    assert [i.name for i in facts.inputs] == ["x"]
    assert facts.operators["Conv"] == 1
    samples = open_samples(tmp_path / "generated")
    silent = [not samples.feeds(k)["x"].any() for k in range(len(samples))]
    assert not any(silent[:5])
    assert any(silent[5:])  # what a search is proved on is not of one kind
    assert samples.feeds(0)["x"].shape == (1, 3, 16, 16)


@pytest.mark.processes
def test_a_model_that_kills_its_reader_is_refused(workers, conv_model, tmp_path):
    (worker,) = workers(1)
    os.kill(worker.client.child.pid, signal.SIGKILL)
    with pytest.raises(ModelError, match=r"Reading 'conv\.onnx' was killed by the system"):
        inspect(worker.client, conv_model, tmp_path / "generated", 1)


def test_every_backend_of_a_recipe_reads_its_file():
    backends = {backend.name: backend for backend in BACKENDS}
    for recipe in RECIPES:
        file = recipe.file or "model.onnx"
        for name in recipe.backends:
            assert file.endswith(backends[name].formats), recipe.name


def test_whatever_changes_the_precision_asks_for_data():
    floats = {"fp16", "bf16"}  # made-up inputs tell whether something left their range
    assert all(recipe.exact != recipe.needs_data for recipe in RECIPES if recipe.name not in {*floats, MAPPED})
    assert [recipe.name for recipe in RECIPES if recipe.exact] == ["source", "cleaned", "lowered"]


@pytest.fixture
def parsed(tmp_path):
    """A model from onnx's text form, loaded."""

    def make(text, **weights):
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
        for name, array in weights.items():
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        onnx.save(proto, tmp_path / "m.onnx")
        return load(tmp_path / "m.onnx")

    return make


def test_weights_that_are_listed_as_inputs_are_weights(parsed):
    model = parsed("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", w=np.float32([1, 2]))
    assert [i.name for i in describe(model).inputs] == ["x"]


def test_every_type_of_input(parsed):
    text = "g (int64[2] i, bool[2] b, string[2] s, float16[n] h) => (int64[2] y) { y = Identity(i) }"
    assert [i.dtype for i in describe(parsed(text)).inputs] == ["int64", "bool", "str", "float16"]


def test_external_weights_are_named_and_counted(tmp_path):
    big = np.zeros(5000, np.float32)
    graph = onnx.parser.parse_graph("g (float[5000] x) => (float[5000] y) { y = Add(x, w) }")
    graph.initializer.append(onnx.numpy_helper.from_array(big, "w"))
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    facts = describe(load(tmp_path / "m.onnx"))
    assert facts.external == ("w.bin",)
    assert facts.size_bytes > 20_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("g () => (float[2] y) { y = Constant<value_floats = [1.0, 2.0]>() }", "no input"),
        ("g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }", "'x' is not a plain tensor"),
        ("g (float x) => (float[n] y) { y = Relu(x) }", "number of dimensions"),
    ],
    ids=["constant", "sequence", "rank"],
)
def test_what_cannot_be_optimized(parsed, text, says):
    model = parsed(text)
    if says == "number of dimensions":
        model.ir.graph.inputs[0].shape = None
    with pytest.raises(ModelError, match=says) as raised:
        describe(model)
    assert raised.value.hint


PASSES = ("fold-constants", "identities")


@pytest.mark.parametrize(("saves_memory", "size_bytes"), [(True, 5_000_000), (True, 1000), (False, 5_000_000)])
def test_weights_are_mapped_where_memory_counts_and_the_model_is_large(begin, saves_memory, size_bytes):
    gathering = begin("cleaned", "mapped")
    gathering._inputs = dataclasses.replace(gathering._inputs, saves_memory=saves_memory, size_bytes=size_bytes)
    made = [one.variant for part in parts_of(gathering) for one in part]
    assert ("mapped" in made) == (saves_memory and size_bytes > 4_000_000)
    assert ("mapped" in failures(gathering)) == (saves_memory and size_bytes < 4_000_000)
    if "mapped" in made:
        assert len(load(gathering.variants.path("mapped")).external) == 1
        assert len(gathering.variants.steps(Candidate("mapped", "onnxruntime-cpu"))) == 2


@pytest.mark.parametrize("has_cache", [False, True])
def test_libraries_come_before_exact_rewrites_of_a_decoder(begin, has_cache):
    gathering = begin("cleaned", "ort-int8")
    gathering._inputs = dataclasses.replace(gathering._inputs, has_cache=has_cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering_module, "why_not", lambda *_: "")  # or a decoder would not get this one
        found = [names(part) for part in gathering.first_parts()]
    decoder = [["source"], ["ort-int8"], ["cleaned"]]
    assert found == (decoder if has_cache else [["source", "cleaned"], ["ort-int8"]])


@pytest.fixture
def begin(tmp_path, conv_model, conv_data, quick_profile):
    """A gathering of these rungs, in which a minute is left."""
    said = []
    profile = profile_for(this_device(), None, quick_profile)
    with np.load(conv_data) as archive:
        save_samples(Samples({"x": archive["x"]}, {"x": 4}), tmp_path / "samples")

    with ExitStack() as stack:

        def work(
            *ladder, of_user=True, plan=None, stopped=False, limit_s=60.0, model=conv_model, passes=PASSES, also=()
        ):
            place = open_context(tmp_path, stack, said.append)
            order, precision = (*profile.backends.order, *also), profile.precision
            mine = msgspec.structs.replace(
                profile,
                backends=msgspec.structs.replace(profile.backends, order=order),
                precision=msgspec.structs.replace(precision, ladder=("source", *ladder)),
            )
            samples, chosen, folder = tmp_path / "samples", split(32, of_user), tmp_path / "variants"
            inputs = BuildInputs(model, 9, samples, chosen, of_user, mine, 1.0, passes, {}, folder)
            ending = StopControl(Stop(), SearchClock(time.monotonic(), limit_s), None, said.append)
            if stopped:
                ending.stop.set()
            found = VariantBuilder(inputs, plan, Variants(), place, ending)
            stack.callback(found.close)
            return found

        yield work


def parts_of(gathering, configs=tuple, needed=lambda floor_db: floor_db):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "decide_repair", lambda _, floor_db: (needed(floor_db), "not needed"))
        yield from variant_parts(SimpleNamespace(configs_to_plan=configs), gathering)


def names(part):
    return [ready.variant for ready in part]


def failures(gathering):
    return {report.name: report.failure for report in gathering.variants.reports if report.failure}


def test_what_is_exact_comes_first_and_what_follows_starts_from_the_cleaned_model(begin, conv_model):
    gathering = begin("cleaned", "int8-dynamic")
    parts = parts_of(gathering)
    assert names(next(parts)) == ["source", "cleaned"]
    cleaned = gathering.variants.path("cleaned")
    assert cleaned.is_file()
    assert gathering._base("onnxruntime-cpu") == cleaned
    assert gathering.variants.path("source") == conv_model
    assert names(next(parts)) == ["int8-dynamic"]
    assert next(parts, None) is None
    assert [report.name for report in gathering.variants.reports] == ["source", "cleaned", "int8-dynamic"]
    assert gathering.variants.reports[1].size_bytes == cleaned.stat().st_size


def test_what_cannot_be_made_is_left_out_with_its_reason(begin):
    gathering = begin("lowered", "int8", "planned", of_user=False)
    assert [names(part) for part in parts_of(gathering)] == [["source"], []]
    told = failures(gathering)
    assert told.keys() == {"lowered", "int8", "planned"}
    assert "needs data" in told["int8"]


def test_one_variant_is_made_with_what_it_needs_and_without_a_plan(begin):
    plan = PlanTerms(Goal())
    gathering = begin("cleaned", "planned", "int8-dynamic", plan=plan)
    assert [names(part) for part in gathering.only("int8-dynamic", ())] == [
        ["source", "cleaned"],
        ["int8-dynamic"],
    ]
    assert not failures(gathering)


def test_a_plan_is_no_use_where_time_is_not_what_counts(begin):
    gathering = begin("planned")
    assert [names(part) for part in parts_of(gathering)] == [["source"], []]
    assert "a plan minimizes time" in failures(gathering)["planned"]


def test_what_a_plan_holds_to_is_asked_once_the_exact_variants_are_there(begin):
    asked = []

    def configs():
        asked.append(names_so_far())
        raise RuntimeError("enough")

    gathering = begin("cleaned", "planned", plan=PlanTerms(Goal()))

    def names_so_far():
        return [report.name for report in gathering.variants.reports]

    parts = parts_of(gathering, configs)
    names(next(parts))
    with pytest.raises(RuntimeError, match="enough"):
        next(parts)
    assert asked == [["source", "cleaned"]]


@pytest.mark.parametrize(
    ("how", "said"),
    [({"stopped": True}, "when the search was stopped"), ({"limit_s": 0.0}, "within the time limit")],
)
def test_what_is_not_ready_in_time_says_so(begin, how, said):
    gathering = begin("cleaned", "int8-dynamic", **how)
    assert [names(part) for part in parts_of(gathering)] == [["source"], []]
    assert all(said in reason for reason in failures(gathering).values())
    assert len(failures(gathering)) == 2


@pytest.mark.parametrize(
    ("size_bytes", "longest_s", "min_s", "max_s"),
    [(29_000_000, 0.0, 60.0, 60.0), (29_000_000, 120.0, 100.0, 120.0), (31_000_000, 120.0, 60.0, 60.0)],
    ids=["the user's limit", "a limit by default", "a large model"],
)
def test_a_search_waits_for_the_recipes_of_libraries_of_a_small_model(
    begin, monkeypatch, size_bytes, longest_s, min_s, max_s
):
    """On a busy machine, one search found twice the speed of the next, in which NNCF was not ready in time."""
    gathering = begin("ort-dynamic", "int8")
    gathering._inputs = dataclasses.replace(gathering._inputs, size_bytes=size_bytes, operators={"MatMul": 2})
    ending = gathering._ending
    ending.longest_s = longest_s
    deadlines, now_s = {}, []

    def late(workers, jobs, until_s, *_):
        """Every variant takes all its time."""
        if jobs:
            deadlines[jobs[0].recipe] = until_s - ending.clock.begin_s
            now_s.append(until_s)
        return ()

    clock = SimpleNamespace(monotonic=lambda: now_s[-1] if now_s else time.monotonic())
    monkeypatch.setattr("edgeopt.pipeline.plans.gathering.time", clock)
    monkeypatch.setattr("edgeopt.pipeline.plans.gathering.make_all", late)
    assert [names(part) for part in parts_of(gathering)] == [["source"], [], []]
    assert min_s <= ending.clock.limit_s <= max_s
    assert 25 < deadlines["ort-dynamic"] < 90
    assert deadlines["int8"] > 0.6 * ending.clock.limit_s


@pytest.mark.parametrize(
    ("size_bytes", "longest_s", "waits"),
    [(9_000_000, 120.0, True), (9_000_000, 0.0, False), (31_000_000, 120.0, False)],
    ids=["a small model", "the user's limit", "a large model"],
)
def test_a_search_waits_for_the_repair_of_a_small_model(begin, monkeypatch, size_bytes, longest_s, waits):
    """A model whose repair ran 2.7 times as fast came out in bf16: proofs of slow runs left no time for it."""
    pytest.importorskip("nncf")
    terms = PlanTerms(Goal(floor=30.0, budget=""))
    gathering = begin("nncf-repaired", plan=terms, also=["openvino-cpu"])
    gathering._inputs = dataclasses.replace(gathering._inputs, size_bytes=size_bytes)
    ending = gathering._ending
    ending.longest_s = longest_s
    due_s = ending.clock.until(0.7)
    asked_s = []

    def late(workers, jobs, until_s, *_):
        asked_s.extend(until_s for job in jobs if job.recipe == "nncf-repaired")
        return ()

    clock = SimpleNamespace(monotonic=lambda: asked_s[-1] if asked_s else due_s)
    monkeypatch.setattr("edgeopt.pipeline.plans.gathering.time", clock)
    monkeypatch.setattr("edgeopt.pipeline.plans.gathering.make_all", late)
    limit_s = ending.clock.limit_s
    for part in parts_of(gathering):
        list(part)
    assert (asked_s[0] > due_s + 10, ending.clock.limit_s > limit_s) == (waits, waits)


@pytest.mark.parametrize(
    ("goal", "needed", "said"),
    [
        (Goal(floor=30.0, budget=""), None, "not needed"),
        (Goal("top1", floor=0.9, budget=""), 30.0, "a goal of its own"),
    ],
)
def test_nothing_is_repaired_where_nothing_asks_for_it(begin, goal, needed, said):
    pytest.importorskip("nncf")
    terms = PlanTerms(goal)
    gathering = begin("nncf-repaired", plan=terms, also=["openvino-cpu"])
    assert [one.variant for part in parts_of(gathering, needed=lambda _: needed) for one in part] == ["source"]
    assert said in failures(gathering)["nncf-repaired"]


def test_what_nncf_quantized_below_the_floor_is_repaired(begin):
    """Any model has a floor that eight bits throughout miss: here it is found first."""
    pytest.importorskip("nncf")
    terms = PlanTerms(Goal(floor=40.0, budget=""))
    gathering = begin("cleaned", "nncf-repaired", plan=terms, also=["openvino-cpu"])
    made = [one for part in parts_of(gathering) for one in part]
    assert "nncf-repaired" in [one.variant for one in made]
    *_, entry = gathering.variants.ledger(Candidate("nncf-repaired", "openvino-cpu"))
    assert entry.snr_db > 40
    assert any(change.what == "returned to float" for change in entry.applied)


@pytest.mark.parametrize("more", [(), ("deduplicate-weights",)])
def test_a_pass_that_openvino_computes_wrong_stays_for_onnxruntime(begin, shuffle_model, monkeypatch, more):
    pytest.importorskip("openvino", reason="a fault of OpenVINO")
    monkeypatch.setattr(operator_forms, "_reaches_convolution", lambda _: False)
    model = onnx.load(shuffle_model)
    if more:  # a second copy of a weight, which goes in both runtimes
        copy = model.graph.initializer.add()
        copy.CopyFrom(next(one for one in model.graph.initializer if one.name == "v"))
        copy.name = "v2"
        model.graph.node.add(op_type="Conv", input=["y", "v2"], output=["z"])
        model.graph.output[0].name = "z"
        onnx.save(model, shuffle_model)
    ladder = ("cleaned", "int8")
    gathering = begin(*ladder, model=shuffle_model, passes=("operator-forms", *more), also=["openvino-cpu"])
    variants, ready = gathering.variants, [one for part in parts_of(gathering) for one in part]
    richer, plain = "onnxruntime-cpu", "openvino-cpu"
    assert {one.variant for one in ready if richer in one.backends} == {"source", *ladder}
    assert "Gather" in kinds_of(variants.path("cleaned", richer))
    assert "Gather" in kinds_of(variants.path("int8", richer))
    assert variants.has("cleaned", plain) is bool(more)
    for name in ("cleaned", "int8"):
        assert not variants.has(name, plain) or "Gather" not in kinds_of(variants.path(name, plain))
    passes = {b: variants.steps(Candidate("cleaned", b)) for b in (richer, plain)}
    assert passes[richer][0].parameters["passes"] == ["operator-forms", *more]
    assert [step.parameters["passes"] for step in passes[plain]] == ([list(more)] if more else [])
    undone = [e for e in variants.ledger(Candidate("cleaned", plain)) if e.rolled_back]
    assert [(e.pass_name, e.wrong_in) for e in undone] == [("operator-forms", "openvino-cpu")]
    assert not any(e.rolled_back for e in variants.ledger(Candidate("int8", richer)))


def kinds_of(path):
    return {node.op_type for node in onnx.load(path).graph.node}
