"""What the tables of `edgeopt quantize` say, for results that are made up."""

import io

import msgspec
import pytest
from rich.console import Console

from edgeopt.cli.quantize import show_quantized
from edgeopt.data.judging.goals import Goal, goal_from
from edgeopt.data.judging.metric import Judged
from edgeopt.measure.stats import Interval
from edgeopt.quant.measured.records import AccuracyProof, File, Quantized, SampleUse
from edgeopt.quant.records import (
    CalibrationTried,
    FrontierPoint,
    LayerVerdict,
    PrecisionPlan,
    QuantFinding,
    TargetVerdict,
)
from edgeopt.views.terminal import write

LAYERS = [f"/encoder/layer.{k}/attention/self/query/MatMul_of_a_long_name" for k in range(20)]
FLOAT = FrontierPoint({}, 12.0, 200.0, 200.0, 200.0)
CHOSEN = FrontierPoint(dict.fromkeys(LAYERS[:6], "int8"), 6.0, 32.0, 31.2, 30.4, 1.93)
DARING = FrontierPoint(dict.fromkeys(LAYERS, "int8"), 5.0, 15.5)
VERDICTS = tuple(
    LayerVerdict(name, "int8" if k < 6 else "float", f"reason {k}", 0.1, snr_db=60.0 - k)
    for k, name in enumerate(LAYERS)
)
PLAN = PrecisionPlan("openvino-cpu", {"precision": "f32"}, 30.0, CHOSEN, (FLOAT, CHOSEN, DARING), VERDICTS)
RESULT = Quantized(
    "written",
    "It is faster.",
    "model.onnx",
    "plan",
    "openvino-cpu",
    {"precision": "f32"},
    Goal(),
    PLAN,
    AccuracyProof(16, True, 31.2, 30.4, steps_back=1),
    Interval(1.93, 1.88, 1.99, 40),
    float_ms=12.03,
    use=SampleUse(256, 100, 24, 16),
    quantized_share=0.87,
    source_bytes=91_000_000,
    files=(File("out.onnx", 23_000_000),),
    seconds=41.0,
    phases_s={"calibrating": 9.0, "measuring": 18.0, "writing": 0.1},
)


def said(width=140, every=False, **changes):
    out = io.StringIO()
    write(
        show_quantized(msgspec.structs.replace(RESULT, **changes), every),
        Console(file=out, width=width, highlight=False),
    )
    return out.getvalue()


def test_the_verdict_stands_first_and_the_file_last():
    lines = said().splitlines()
    assert lines[0] == "It is faster."
    assert lines[-1] == "Written: out.onnx"


def test_what_was_proved_is_told_with_the_samples():
    text = said()
    assert "Accuracy: 31.2 dB, lower bound for others 30.4 dB; on 16 samples not used before." in text
    assert "Goal: at least 30 dB (transparent)." in text
    assert "1 more daring plan fell below it" in text
    assert "256 given; 100 to calibrate, 24 to plan, 16 to prove." in text
    assert "1.93x [1.88 1.99] over the float model of 12.0 ms" in text
    assert "Layers: 6 int8, of 20; 87 % of the multiply-adds." in text
    assert "86.8 MiB → 21.9 MiB" in text
    assert "41 s: measuring 18, calibrating 9." in text


def test_a_report_that_keeps_float_does_not_say_that_its_plan_runs():
    text = said(outcome="reported", summary="Keep float: no plan is faster.", quantized_share=0.0, files=())
    assert "Nearest plan, not written: in openvino-cpu precision=f32." in text
    assert "Layers: 6 int8, of 20." in text


def test_a_plan_that_is_not_written_is_named_so_whatever_its_share():
    text = said(outcome="keep float", summary="Keep float: the best plan has no gain.", files=())
    assert "Nearest plan, not written: in openvino-cpu precision=f32." in text
    assert "Runs in" not in text


def test_report_without_a_proof_does_not_say_that_samples_proved():
    text = said(outcome="reported", summary="Keep float: no layer is faster.", proof=None, files=())
    assert "16 to prove. Nothing was proved." in text
    assert "Nothing was proved" not in said()


def test_samples_that_prove_little_are_not_praised():
    text = said(proof=AccuracyProof(4, False, 31.2, 30.4), use=SampleUse(4, 4, 4, 2, shared=True))
    assert "also used by the plan" in text
    assert "too few to set some aside" in text
    assert "generated ones" in said(use=SampleUse(16, 0, 8, 8, generated=True))


def test_the_frontier_marks_the_chosen_point_and_what_was_only_estimated():
    text = said()
    (chosen,) = [line for line in text.splitlines() if line.startswith(("▶", ">"))]
    assert chosen[1:].split() == ["6.00", "ms", "2.00x", "31.2", "dB", "30.4", "dB", "1.93x", "6", "int8"]
    assert "~15.5 dB" in text
    assert "all float" in text


def test_the_layers_that_cost_most_come_first_and_all_on_request():
    text = said()
    assert text.index("reason 19") < text.index("reason 18")
    assert "reason 0" not in text
    assert "8 more layers (--all)" in text
    assert "reason 0" in said(every=True)


def test_long_names_are_cut_where_they_are_alike():
    assert "….19/attention/self/query/MatMul_of_a_long_name" in said().replace("er.19", ".19").replace(
        "r.19", ".19"
    )


def test_a_task_metric_is_told_beside_the_decibels():
    judged = Judged("top1-labels", 0.985, 0.97, 250, source=0.99, drop=0.005, drop_low=-0.002, drop_high=0.012)
    text = said(
        goal=goal_from("top1-labels", "aggressive", "0.6%"),
        proof=AccuracyProof(250, True, 14.0, 13.5, judged=judged),
    )
    assert "Top-1 with labels 98.5 % against 99 %, drop 0.5 points [-0.2 1.2]." in text
    assert "at most 0.6 points below the source's, and at least 12 dB" in text


def test_with_a_task_metric_the_frontier_speaks_its_words():
    goal = goal_from("top1-labels", None, "0.6%")
    points = (FLOAT, msgspec.structs.replace(CHOSEN, snr_db=-0.005, low_db=-0.012), DARING)
    text = said(goal=goal, plan=msgspec.structs.replace(PLAN, frontier=points, chosen=points[1], floor_db=0.0))
    (chosen,) = [line for line in text.splitlines() if line.startswith("▶")]
    assert "-0.5 points" in chosen
    assert "-1.2 points" in chosen
    assert "~15.5 dB" in text


def test_keep_float_shows_the_frontier_all_the_same():
    plan = msgspec.structs.replace(PLAN, chosen=FLOAT)
    text = said(outcome="keep float", summary="Keep float.", plan=plan, files=(), speedup=None, proof=None)
    assert "all 20 stay float" in text
    assert "~15.5 dB" in text
    assert "Written" not in text
    assert "Size" not in text


def test_findings_calibrations_targets_and_warnings_are_told():
    text = said(
        findings=tuple(QuantFinding("outlier", "x", f"Finding {k}.") for k in range(9)),
        calibrations=(CalibrationTried("minmax", 28.2, 27.5, 1.2, 210.0), CalibrationTried("entropy", 29.9)),
        targets=(TargetVerdict("cpu-avx2", "saturates", "3 % of the pairs overflow.", "Reduce the range."),),
        warnings=("Mind the gap.",),
    )
    assert "Finding 0." in text
    assert "3 more (--all)" in text
    assert text.index("entropy") < text.index("minmax"), "the most exact first"
    assert "3 % of the pairs overflow. Reduce the range." in text
    assert "warning: Mind the gap." in text


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, said(width).splitlines())) <= width


def test_what_was_told_on_the_way_is_not_told_again():
    out = io.StringIO()
    found = msgspec.structs.replace(RESULT, warnings=("Told.",))
    write(show_quantized(found, warned=True), Console(file=out, width=140))
    assert "Told." not in out.getvalue()
    assert RESULT.summary in out.getvalue()


def test_of_a_single_form_only_layers_that_stay_float_are_listed():
    text = said(method="int8", every=True)
    assert "Layers that stay float" in text
    assert "reason 6 " in text
    assert "reason 5 " not in text


def test_brackets_in_names_are_no_mark_up():
    name = "[red]layer[/red]"
    plan = msgspec.structs.replace(PLAN, verdicts=(LayerVerdict(name, "float", "why [bold]not"),))
    assert name in said(plan=plan)
    assert "why [bold]not" in said(plan=plan)
