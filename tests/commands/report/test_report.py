import math
from pathlib import Path

import msgspec
import pytest

from edgeopt.bundle.deployment import FILE, read_deployment
from edgeopt.bundle.manifest import write_manifest
from edgeopt.commands.report.facts import ReportFacts
from edgeopt.commands.report.report import gather, report, written
from edgeopt.commands.report.request import ReportRequest, format_of
from edgeopt.errors import BundleError, ModelError, UsageError
from edgeopt.graph.model import load
from tests.commands.report.evidence import ahead, outcome, put_evidence


@pytest.fixture(scope="module")
def raced(raced_bundle):
    return gather(raced_bundle, nodes=False)


def test_the_stages_lead_from_the_source_to_what_was_proved(raced):
    names = [stage.name for stage in raced.stages]
    assert names == ["source", "another runtime", "cleaned", "fewer bits", "tuned, as delivered"]
    assert [stage.proved for stage in raced.stages] == [True, False, False, False, True]
    assert raced.stages[2].time_ms == pytest.approx(2.0 / 1.6)
    last = raced.stages[-1]
    assert (last.time_ms, last.ratio, last.snr_db, last.size_bytes) == (0.8, raced.speed.ratio, 33.0, 4000)


def test_the_front_holds_who_may_be_delivered_and_is_beaten_by_nobody(raced):
    front = [(p.variant, p.ratio.median) for p in raced.points if p.on_front]
    assert front == [("cleaned", 1.6), ("int8", 2.6)]


def test_what_never_took_part_says_why(raced):
    assert [(each.name, each.reason) for each in raced.not_made] == [("lowered", "the profile lists no lowerings")]


def test_operators_are_counted_before_and_after(raced):
    counted = {each.operator: (each.before, each.after) for each in raced.operators}
    assert counted["Gone"] == (4, 0)
    assert counted["Conv"] == (1, 1)
    assert raced.work_after.nodes == 6


def test_outputs_are_compared_on_the_golden_samples_where_the_evidence_does_not_tell(raced):
    assert [(each.name, each.snr_db) for each in raced.accuracy.outputs] == [("y", 200.0)]
    assert raced.accuracy.outputs_on == "the 3 golden samples of the bundle"


def test_a_goal_by_a_metric_is_not_called_a_floor_of_0_db(bundle):
    goal = "top-1 with labels at most 1 point below the source's"
    put_evidence(bundle, outcome(floor_db=0.0, goal=goal))
    accuracy = gather(bundle, nodes=False).accuracy
    assert (accuracy.goal, accuracy.floor_db) == (goal, None)


def test_nodes_are_measured_where_asked_for(raced_bundle, raced):
    assert raced.nodes is None
    assert raced.unknown["time by node"] == "Not measured (--no-nodes)."
    times = gather(raced_bundle, nodes=True).nodes
    assert times.backend == "onnxruntime-cpu"
    assert any("Conv" in row.operator for row in times.rows)


def test_another_device_is_said_and_nothing_is_measured_there(bundle, device_fingerprint):
    changed = put_evidence(bundle, outcome(), device={**device_fingerprint, "cpu": "0" * 64})
    found = gather(changed)
    assert found.changed_here == ("cpu",)
    assert found.nodes is None
    assert "another one (cpu differ)" in found.unknown["time by node"]


def test_the_source_model_is_held_against_the_result(bundle, conv_model):
    source = msgspec.structs.replace(read_deployment(bundle / FILE).source, sha256=load(conv_model).digest)
    put_evidence(bundle, outcome(), source=source)
    found = gather(bundle, source=conv_model, nodes=False)
    assert found.work_before == found.work_after
    assert {each.operator: each.before for each in found.operators}["Conv"] == 1


def test_another_model_than_the_source_is_refused(raced_bundle, relu_model):
    with pytest.raises(ModelError, match="not the model that the bundle was made from"):
        gather(raced_bundle, source=relu_model, nodes=False)


def test_a_plan_of_precision_tells_its_points_and_layers(planned_bundle):
    found = gather(planned_bundle, nodes=False)
    assert found.made_by == "a plan of precision"
    assert [(p.name, p.status) for p in found.points] == [
        ("all layers in float", "lost"),
        ("1 layer in int8", "winner"),
        ("2 layers in int8", "lost"),
    ]
    assert [(each.layer, each.scheme) for each in found.layers] == [("conv", "int8"), ("fc", "float")]
    assert found.float_ratio.median == 1.4
    assert (found.speed.result.taken.runs, found.speed.result.memory.peak_bytes) == (500, 80 * 2**20)
    assert found.accuracy.low_db == 33.0


def test_a_plan_for_a_device_that_was_not_there_is_not_called_measured(bundle):
    (bundle / "prediction.json").write_bytes(msgspec.json.encode(ahead()))
    write_manifest(bundle)
    found = gather(bundle, nodes=False)
    assert found.made_by == "a plan for another device"
    assert found.verdict == "predicted"
    assert [(p.variant, p.status, p.time_ms, p.basis) for p in found.points] == [
        ("int8", "winner", 3.0, "expected"),
        ("source", "lost", None, "expected"),
    ]
    assert [each.name for each in found.not_made] == ["planned"]
    assert found.accuracy.snr_db == 34.0


def test_a_bundle_that_tells_nothing_is_reported_from_its_deployment_alone(conv_bundle):
    found = gather(conv_bundle, nodes=False)
    assert found.made_by == "unknown"
    assert found.speed.ratio.median == 2.0
    assert "with 95 %" not in written(found, "markdown")  # the profile does not state the confidence
    assert found.unknown["candidates"] == "The bundle holds no evidence.json."
    assert "--model" in found.unknown["operators before"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "no record"),
        (b'{"a": 1}', "does not support"),
        (b'{"candidates": 1}', "cannot be read"),
    ],
)
def test_evidence_that_cannot_be_read_is_said(bundle, content, says):
    (bundle / "evidence.json").write_bytes(content)
    write_manifest(bundle)
    assert says in gather(bundle, nodes=False).unknown["candidates"]


def test_evidence_with_an_interval_without_an_end_is_read(bundle):
    open_ended = msgspec.structs.replace(outcome().proof.speedup, low=0.0, high=math.inf)
    proof = msgspec.structs.replace(outcome().proof, speedup=open_ended)
    put_evidence(bundle, outcome(proof=proof))
    facts = gather(bundle, nodes=False)
    assert "candidates" not in facts.unknown
    assert facts.speed.ratio.high == math.inf


def test_a_damaged_bundle_is_refused(bundle):
    (bundle / "ledger.json").write_text("[ ]")
    with pytest.raises(BundleError):
        gather(bundle, nodes=False)


def test_the_facts_as_json_are_read_back_the_same(raced):
    assert msgspec.json.decode(written(raced, "json"), type=ReportFacts) == raced


def test_a_single_file_is_reported_as_its_folder_is(raced_bundle, tmp_path):
    from edgeopt.bundle.archive import pack

    single = tmp_path / "raced-one.edgeopt"
    with single.open("wb") as file:
        pack(raced_bundle, file)
    found = report(ReportRequest(single, tmp_path / "report.html", nodes=False))
    assert found.verdict == "faster"
    assert "SIGSEGV" in (tmp_path / "report.html").read_text()


def test_undecided_shows_the_source_unchanged(raced):
    undecided = msgspec.structs.replace(raced, verdict="undecided", stages=raced.stages[:1])
    page = written(undecided, "markdown")
    assert "Undecided" in page
    assert "Speed-up" not in page
    assert page.count("(unchanged)") == 2


def test_candidates_have_race_and_proof_apart(raced):
    page = written(raced, "markdown")
    assert "| race |" in page
    assert "| proof |" in page


def test_a_folder_that_is_not_there_is_told_before_anything_is_measured(raced_bundle, tmp_path):
    phases = []
    with pytest.raises(UsageError, match="does not exist"):
        report(ReportRequest(raced_bundle, tmp_path / "nowhere" / "report.html"), phases.append)
    assert phases == []


@pytest.mark.parametrize(
    ("out", "to", "form"),
    [("a.html", "", "html"), ("a.MD", "", "markdown"), ("a.json", "", "json"), ("a.pdf", "json", "json")],
)
def test_the_ending_says_what_to_write_unless_it_is_said(out, to, form):
    assert format_of(ReportRequest(Path("model.edgeopt"), Path(out), to)) == form


@pytest.mark.parametrize(
    ("out", "to", "words"),
    [("a.pdf", "", "names no report format"), ("a.html", "pdf", "no report format 'pdf'")],
)
def test_what_is_no_form_is_refused(out, to, words):
    with pytest.raises(UsageError, match=words):
        format_of(ReportRequest(Path("model.edgeopt"), Path(out), to))


def test_results_of_a_lab_are_not_taken_for_a_damaged_bundle(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(UsageError, match="results of a lab") as caught:
        report(ReportRequest(tmp_path, tmp_path / "new.html"))
    assert "report.html" in caught.value.hint
