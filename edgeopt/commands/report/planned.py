"""What a plan of precision says, for a report: the points between error and time, and each layer's form."""

from edgeopt.bundle.deployment import Deployment
from edgeopt.commands.report.facts import LayerChoice, Point, Stage
from edgeopt.commands.report.front import with_front
from edgeopt.commands.report.words import several
from edgeopt.quant.measured.proving.proof import RESULT, SOURCE
from edgeopt.quant.measured.records import Quantized
from edgeopt.quant.records import FLOAT, Plan
from edgeopt.quant.records import Point as PlanPoint

_FLOATS = "in full precision, where that is quickest"


def points_of(found: Quantized) -> tuple[Point, ...]:
    """The frontier that the plan chose from; its times are what was expected from layers timed one by one."""
    plan = found.plan
    return with_front([_point(each, plan) for each in plan.frontier]) if plan else ()


def layers_of(found: Quantized) -> tuple[LayerChoice, ...]:
    verdicts = found.plan.verdicts if found.plan else ()
    return tuple(LayerChoice(each.layer, each.form, each.reason) for each in verdicts)


def stages_of(found: Quantized, deployment: Deployment, model_bytes: int) -> tuple[Stage, ...]:
    """From the source over floats on the same backend to the result."""
    source = found.source_speedup
    if deployment.evidence is None or source is None:
        return ()
    baseline_ms = deployment.evidence.baseline_ms
    backend = found.float_on or f"{found.backend} with the result's options"
    first = Stage(
        "source",
        "the source model, with default options",
        deployment.evidence.baseline,
        None,
        baseline_ms,
        found.source_bytes,
        _peak(found, SOURCE),
        proved=True,
    )
    stages = [first]
    if found.speedup is not None:
        over_source = source.median / found.speedup.median
        stages.append(Stage("floats", _FLOATS, backend, time_ms=baseline_ms / over_source))
    result = Stage(
        "as delivered",
        "the written file" if found.plan is None else "each layer in its scheme",
        f"{found.method} on {found.backend}",
        source,
        deployment.evidence.latency_ms,
        model_bytes,
        _peak(found, RESULT),
        found.proof.snr_db if found.proof else None,
        proved=True,
    )
    return (*stages, result)


def _peak(found: Quantized, name: str) -> int | None:
    return found.memory[name].peak_bytes if name in found.memory else None


def _point(each: PlanPoint, plan: Plan) -> Point:
    chosen = each.choices == plan.chosen.choices
    forms = sorted({form for form in each.choices.values() if form != FLOAT})
    layers = several(sum(form != FLOAT for form in each.choices.values()), "layer")
    return Point(
        name=f"{layers} in {' and '.join(forms)}" if forms else "all layers in float",
        variant=", ".join(forms) or FLOAT,
        backend=plan.backend,
        status="winner" if chosen else "lost",
        time_ms=each.expected_ms or None,
        snr_db=each.expected_db if each.snr_db is None else each.snr_db,
        low_db=each.low_db,
        basis="expected",
    )
