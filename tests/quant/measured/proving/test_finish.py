"""What is delivered and what stays float, with contests whose results are planted."""

import msgspec
import pytest

from edgeopt.bundle.read import read_bundle
from edgeopt.data.judging.goals import goal_from
from edgeopt.measure.stats import Interval
from edgeopt.quant.measured.given import Runs
from edgeopt.quant.measured.planning.entry import Entry, write_entry
from edgeopt.quant.measured.planning.planned import proven
from edgeopt.quant.measured.proving import finish as module
from edgeopt.quant.measured.proving.finish import finish
from edgeopt.quant.measured.proving.proof import FLOAT, SOURCE, Measured, Speed, with_one_float
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.timing.courses import Course
from edgeopt.quant.measured.work import prepare

FASTER = Speed(Interval(1.31, 1.25, 1.38, 11, 0.99), "faster", 1.0, 1.31)
SLOWER = Speed(Interval(0.9, 0.823, 0.985, 11, 0.99), "slower", 1.0, 0.9)
UNCLEAR = Speed(Interval(1.01, 0.98, 1.03, 11, 0.99), "no difference seen", 1.0, 1.01)
DYNAMIC = {"MatMul_0": "int8-dynamic"}


@pytest.fixture
def working(stack_model, stack_data, tmp_path):
    """Makes the work of a request, without what it was found to need."""
    with Runs() as runs:

        def make(**wishes):
            given = {"backend": "onnxruntime-cpu", "goal": goal_from(None, "20dB"), **wishes}
            request = QuantizeRequest(stack_model, tmp_path / "out.edgeopt", stack_data, **given)
            return prepare(request, tmp_path, runs, lambda _: None)

        yield make


def measuring(monkeypatch, speeds):
    """Plants what the contest finds, by the end of the names of those who take part."""

    def compared(runners, *_):
        names = [each.name for each in runners]
        found = {name: speed for name in names[1:] for end, speed in speeds.items() if name.endswith(end)}
        return Measured(found)

    monkeypatch.setattr(module, "compared", compared)


def entry_of(work, choices=DYNAMIC):
    return proven(work, write_entry(work.study, work.courses[0], choices, work.folder / "plan.onnx"))


def test_a_plan_that_is_slower_than_the_source_stays_float(working, monkeypatch):
    work = working()
    measuring(monkeypatch, {FLOAT: FASTER, "onnxruntime-cpu": FASTER, SOURCE: SLOWER})

    found = finish(work, entry_of(work))

    assert found.outcome == "keep float"
    assert found.summary.startswith(
        "Keep float: the best plan has no gain. It is slower than float on onnxruntime"
    )
    assert found.speedup.median == 0.9
    assert not work.request.out.exists()


def test_a_plan_must_be_faster_than_the_float_model_of_the_other_runtime(working, monkeypatch):
    work = working()
    work.courses = (*work.courses, Course("openvino-cpu", {"precision": "f32"}))
    measuring(monkeypatch, {"onnxruntime-cpu": FASTER, "(precision=f32)": UNCLEAR, SOURCE: FASTER})

    found = finish(work, entry_of(work))

    assert found.outcome == "keep float"
    assert found.float_on == "openvino-cpu (precision=f32)"
    assert "It is not proved faster than float on" in found.summary
    assert ": 1.01" in found.summary


def test_a_plan_that_beats_every_float_model_is_written_with_evidence(working, monkeypatch):
    work = working()
    measuring(monkeypatch, {FLOAT: FASTER, "onnxruntime-cpu": FASTER, SOURCE: FASTER})

    found = finish(work, entry_of(work))

    assert found.outcome == "written"
    assert "1.31 times as fast as float on onnxruntime-cpu" in found.summary
    assert read_bundle(work.request.out).deployment.evidence.verdict == "faster"


def test_options_of_the_user_hold_for_floats_too_and_the_plain_source_only_informs(working, monkeypatch):
    work = working(options={"threads": 1})
    measuring(monkeypatch, {"(threads=1)": FASTER, SOURCE: SLOWER})

    found = finish(work, entry_of(work))

    assert found.outcome == "written"
    assert found.float_on == "onnxruntime-cpu (threads=1)"
    assert found.source_speedup.median == 0.9


def test_a_form_asked_for_by_name_is_written_though_it_is_slower_and_says_so(working, monkeypatch):
    work = working(method="int8-dynamic")
    measuring(monkeypatch, {"onnxruntime-cpu": SLOWER, SOURCE: SLOWER})

    assert finish(work, entry_of(work)).outcome == "written"
    assert any("slower than float on onnxruntime-cpu" in warning for warning in work.warnings)


def test_floats_that_are_rounded_are_proved_and_delivered_with_their_accuracy(working, monkeypatch):
    work = working()
    rounded = Course("openvino-cpu", {"precision": "bf16"})
    monkeypatch.setattr(type(work.runs), "outputs", outputs_of_the_judge(work))
    measuring(monkeypatch, {FLOAT: FASTER, "f32)": FASTER, "onnxruntime-cpu": FASTER, SOURCE: FASTER})

    found = finish(work, proven(work, Entry(rounded, {}, work.study.path)))

    assert found.summary.startswith("All layers in bf16 on openvino-cpu (precision=bf16): ")
    assert " dB on " in found.summary or "equal to the source model on" in found.summary
    evidence = read_bundle(work.request.out).deployment.evidence
    assert evidence.accuracy_db == pytest.approx(found.proof.snr_db, abs=0.06)
    assert evidence.samples == found.proof.samples


def outputs_of_the_judge(work, factor=1.0):
    """No machine need have bf16, nor OpenVINO."""
    real = type(work.runs).outputs

    def outputs(runs, path, _backend, _options, feeds):
        answers = real(runs, path, runs.judge, {}, feeds)
        return [{name: factor * array for name, array in answer.items()} for answer in answers]

    return outputs


def test_floats_that_are_rounded_too_far_are_not_delivered(working, monkeypatch):
    work = working()
    rounded = Course("openvino-cpu", {"precision": "bf16"})
    monkeypatch.setattr(type(work.runs), "outputs", outputs_of_the_judge(work, factor=0.8))
    measuring(monkeypatch, {FLOAT: FASTER, "f32)": FASTER, "onnxruntime-cpu": FASTER, SOURCE: FASTER})

    found = finish(work, proven(work, Entry(rounded, {}, work.study.path)))

    assert found.outcome == "keep float"
    assert found.summary.startswith("Keep float: the best plan reaches 14.0 dB")


def test_without_a_proof_nothing_is_delivered(working, monkeypatch):
    work = working(method="int8-dynamic")
    measuring(monkeypatch, {"onnxruntime-cpu": FASTER, SOURCE: FASTER})
    entry = entry_of(work)
    entry.proof = None

    assert finish(work, entry).outcome == "keep float"


def test_a_bundle_is_not_written_without_evidence(working, monkeypatch):
    work = working(method="int8-dynamic")
    measuring(monkeypatch, {})
    entry = entry_of(work)

    found = finish(work, entry)
    assert found.outcome == "keep float"
    assert "-o FILE.onnx" in found.summary

    work.request = msgspec.structs.replace(work.request, out=work.request.out.with_suffix(".onnx"))
    assert finish(work, entry).outcome == "written"


def test_of_several_float_models_the_one_that_is_hardest_to_beat_stays():
    speeds = {"a": FASTER, "b": UNCLEAR, SOURCE: FASTER}

    found, name = with_one_float(Measured(speeds), ("a", "b"))

    assert name == "b"
    assert found.speeds == {FLOAT: UNCLEAR, SOURCE: FASTER}
