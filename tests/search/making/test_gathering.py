import time
from contextlib import ExitStack

import msgspec
import numpy as np
import onnx
import pytest

from edgeopt.data.judging.goals import Goal
from edgeopt.data.samples import Samples, save_samples
from edgeopt.data.split import split
from edgeopt.graph.passes.algebra import operator_forms
from edgeopt.hw.probe import probe
from edgeopt.profiles.targets import profile_for
from edgeopt.search.delivering.report import ledger_of, steps_of
from edgeopt.search.making.gathering import Gathering, PlanTerms
from edgeopt.search.making.recipes import Material
from edgeopt.search.making.variants import Variants
from edgeopt.search.outcome import Candidate
from edgeopt.search.place import placed
from edgeopt.search.stopping import Clock, Ending, Stop

PASSES = ("fold-constants", "identities")


@pytest.fixture
def begin(tmp_path, conv_model, conv_data, quick_profile):
    """A gathering of these rungs, in which a minute is left."""
    said = []
    profile = profile_for(probe(), None, quick_profile)
    with np.load(conv_data) as archive:
        save_samples(Samples({"x": archive["x"]}, {"x": 4}), tmp_path / "samples")

    with ExitStack() as stack:

        def work(
            *ladder, of_user=True, plan=None, stopped=False, limit_s=60.0, model=conv_model, passes=PASSES, also=()
        ):
            place = placed(tmp_path, stack, said.append)
            order, precision = (*profile.backends.order, *also), profile.precision
            mine = msgspec.structs.replace(
                profile,
                backends=msgspec.structs.replace(profile.backends, order=order),
                precision=msgspec.structs.replace(precision, ladder=("source", *ladder)),
            )
            samples, chosen, folder = tmp_path / "samples", split(32, of_user), tmp_path / "variants"
            material = Material(model, 9, samples, chosen, of_user, mine, 1.0, passes, 30.0, limit_s, {}, folder)
            ending = Ending(Stop(), Clock(time.monotonic(), limit_s), None, said.append)
            if stopped:
                ending.stop.set()
            found = Gathering(material, plan, Variants(passes), place, ending)
            stack.callback(found.close)
            return found

        yield work


def names(part):
    return [ready.variant for ready in part]


def failures(gathering):
    return {report.name: report.failure for report in gathering.variants.reports if report.failure}


def test_what_is_exact_comes_first_and_what_follows_starts_from_the_cleaned_model(begin, conv_model):
    gathering = begin("cleaned", "int8-dynamic")
    parts = gathering.parts()
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
    assert [names(part) for part in gathering.parts()] == [["source"], []]
    told = failures(gathering)
    assert told.keys() == {"lowered", "int8", "planned"}
    assert "needs data" in told["int8"]


def test_one_variant_is_made_with_what_it_needs_and_without_a_plan(begin):
    asked = []
    plan = PlanTerms(Goal(), None, lambda: asked.append("planned") or ())
    gathering = begin("cleaned", "planned", "int8-dynamic", plan=plan)
    assert [names(part) for part in gathering.only("int8-dynamic")] == [["source", "cleaned"], ["int8-dynamic"]]
    assert not asked
    assert not failures(gathering)


def test_a_plan_is_no_use_where_time_is_not_what_counts(begin):
    gathering = begin("planned")
    assert [names(part) for part in gathering.parts()] == [["source"], []]
    assert "a plan minimizes time" in failures(gathering)["planned"]


def test_what_a_plan_holds_to_is_asked_once_the_exact_variants_are_there(begin):
    asked = []

    def courses():
        asked.append(names_so_far())
        raise RuntimeError("enough")

    gathering = begin("cleaned", "planned", plan=PlanTerms(Goal(), None, courses))

    def names_so_far():
        return [report.name for report in gathering.variants.reports]

    parts = gathering.parts()
    names(next(parts))
    with pytest.raises(RuntimeError, match="enough"):
        names(next(parts))
    assert asked == [["source", "cleaned"]]


@pytest.mark.parametrize(
    ("how", "said"),
    [({"stopped": True}, "when the search was stopped"), ({"limit_s": 0.0}, "within the time limit")],
)
def test_what_is_not_ready_in_time_says_so(begin, how, said):
    gathering = begin("cleaned", "int8-dynamic", **how)
    assert [names(part) for part in gathering.parts()] == [["source"], []]
    assert all(said in reason for reason in failures(gathering).values())
    assert len(failures(gathering)) == 2


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
    variants, ready = gathering.variants, [one for part in gathering.parts() for one in part]
    richer, plain = "onnxruntime-cpu", "openvino-cpu"
    assert {one.variant for one in ready if richer in one.backends} == {"source", *ladder}
    assert "Gather" in kinds_of(variants.path("cleaned", richer))
    assert "Gather" in kinds_of(variants.path("int8", richer))
    assert variants.has("cleaned", plain) is bool(more)
    for name in ("cleaned", "int8"):
        assert not variants.has(name, plain) or "Gather" not in kinds_of(variants.path(name, plain))
    passes = {b: steps_of(variants, Candidate("cleaned", b), None, 0) for b in (richer, plain)}
    assert passes[richer][0].parameters["passes"] == ["operator-forms", *more]
    assert [step.parameters["passes"] for step in passes[plain]] == ([list(more)] if more else [])
    undone = [e for e in ledger_of(variants, Candidate("cleaned", plain)) if e.rolled_back]
    assert [(e.pass_name, e.wrong_in) for e in undone] == [("operator-forms", "openvino-cpu")]
    assert not any(e.rolled_back for e in ledger_of(variants, Candidate("int8", richer)))


def kinds_of(path):
    return {node.op_type for node in onnx.load(path).graph.node}
