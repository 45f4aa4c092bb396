"""What became of a model's precision, in sentences: where it runs, what was proved, what it took."""

from collections import Counter
from typing import TYPE_CHECKING

from edgeopt import units

if TYPE_CHECKING:
    from edgeopt.data.judging.goals import Goal
    from edgeopt.data.judging.judged import Judged
    from edgeopt.quant.measured.records import Proof, Quantized, SampleUse
    from edgeopt.quant.records import Plan, Point


def about(found: "Quantized") -> list[str]:
    """Where it runs, what was proved, and what it took, a line each."""
    lines = []
    if found.backend:
        where = " ".join(
            [
                found.backend,
                *(f"{name}={value}" for name, value in found.options.items() if not isinstance(value, dict)),
            ]
        )
        refused = found.outcome == "keep float" and found.plan is not None and forms(found.plan.chosen)
        lines.append(f"{'The plan that comes nearest: in' if refused else 'Runs in:'} {where}.")
    if found.plan is not None:
        lines.append(_share(found.plan, found.quantized_share))
    if found.speedup is not None:
        lines.append(_speed(found))
    if found.proof is not None:
        lines += proved(found, found.proof)
    if found.use is not None:
        lines.append(_samples(found.use))
    if found.files:
        lines.append(_sizes(found))
    lines.append(f"It took {found.seconds:.0f} s{_slowest(found.phases_s)}.")
    return lines


def _share(plan: "Plan", share: float) -> str:
    total = len(plan.verdicts)
    chosen = forms(plan.chosen)
    if not chosen:
        rounded = plan.options.get("precision")
        return f"Layers: all {total} in bf16." if rounded == "bf16" else f"Layers: all {total} stay float."
    return f"Layers: {chosen}, of {total}; {share:.0%} of the multiply-adds."


def forms(point: "Point") -> str:
    """`13 int8, 7 int8-groups`; empty where all stay float."""
    counts = Counter(form for form in point.choices.values() if form != "float")
    return ", ".join(f"{layers} {form}" for form, layers in counts.most_common())


def _speed(found: "Quantized") -> str:
    assert found.speedup is not None  # noqa: S101 - asked by the caller
    times = f" of {found.float_ms:.3g} ms" if found.float_ms else ""
    where = f" on {found.float_on}" if found.float_on else ""
    line = f"Measured: {found.speedup} over the float model{times}{where}, interleaved"
    if found.source_speedup is not None:
        line += f"; {found.source_speedup} over the source in plain ONNX Runtime"
    return f"{line}."


def proved(found: "Quantized", proof: "Proof") -> list[str]:
    """What the outputs were on the samples that prove, in dB and by the goal's own metric."""
    from edgeopt.graph.accuracy import decibels

    seen = "not used before" if proof.set_aside else "also used by the plan"
    low = "" if proof.snr_db >= 200 else f", on others perhaps {decibels(proof.low_db)}"
    low += "" if proof.tail is None else f", lowest sample {decibels(proof.tail.lowest_db)}"
    goal, judged = found.goal, proof.judged
    lines = [f"Accuracy: {decibels(proof.snr_db)}{low}; on {units.count(proof.samples, 'sample')} {seen}."]
    if proof.weakest is not None:
        lines.append(proof.weakest.sentence)
    if judged is not None and goal is not None and not goal.is_ratio:
        said = goal.shown(judged.value) if not judged.problem else f"not known: {judged.problem}"
        source = f", the source {goal.shown(judged.source)}" if judged.source is not None else ""
        lines.append(
            f"{goal.title[:1].upper()}{goal.title[1:]}: {said}{source}, on others perhaps {_worse(goal, judged)}."
        )
    if goal is not None:
        lines.append(f"Goal: {goal}.")
    if proof.steps_back:
        lines.append(f"{units.count(proof.steps_back, 'more daring plan')} fell below it on these samples.")
    if len(proof.outputs) > 1:
        worst = sorted(proof.outputs, key=lambda output: output.snr_db)
        lines.append("By output: " + ", ".join(f"'{o.name}' {decibels(o.snr_db)}" for o in worst) + ".")
    return lines


def _worse(goal: "Goal", judged: "Judged") -> str:
    if goal.max_drop is not None and judged.drop_high is not None:
        return f"{goal.points(judged.drop_high)} worse than the source"
    return goal.shown(judged.low)


def _samples(use: "SampleUse") -> str:
    if use.generated:
        return "Samples: none given; generated ones show that the model runs, but not how accurate it is (--data)."
    shared = " There were too few to set some aside." if use.shared else ""
    did = f"{use.calibrated} calibrated, {use.planned} planned, {use.proved} proved"
    return f"Samples: {use.given} given; {did}.{shared}"


def _sizes(found: "Quantized") -> str:
    size = sum(file.size_bytes for file in found.files)
    return f"Size: {units.size(found.source_bytes)} → {units.size(size)}."


def _slowest(phases: "dict[str, float]") -> str:
    if len(phases) < 2:
        return ""
    first = sorted(phases.items(), key=lambda each: -each[1])[:3]
    return ": " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in first if seconds >= 0.5) if first else ""
