"""A quantized file seen from the sides of other targets, without making anything."""

import time

import msgspec

from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.files.sniff import check_file
from edgeopt.hw.probe import probe
from edgeopt.profiles.targets import profile_for
from edgeopt.quant.measured.given import read_given
from edgeopt.quant.measured.records import Quantized, QuantizeRequest, TargetSaid
from edgeopt.quant.measured.runs import Runs
from edgeopt.workspace import WORK, workspace

FINE = "fine"


def checked(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """What `edgeopt quantize MODEL --check-targets` does without -o: the model is taken as it is."""
    from edgeopt.quant.targets import check_targets

    begin = time.monotonic()
    check_file(request.model)
    profile = profile_for(probe(), named=request.profile or None)
    with workspace(WORK), Runs() as runs:
        emit(Progress("reading the model", request.model.name))
        inputs = runs.inputs(request.model)
        given = read_given(request, inputs, profile.data, calibrates=False)
        emit(Progress("checking targets", ", ".join(request.check_targets)))
        rows = check_targets(request.model, request.check_targets, given.samples[given.prove])
    said = tuple(msgspec.convert(msgspec.to_builtins(row), TargetSaid) for row in rows)
    return Quantized(
        "reported",
        _summary(said),
        str(request.model),
        "",
        "",
        {},
        request.shown_goal,
        targets=said,
        warnings=_of_samples(given.use.generated),
        seconds=time.monotonic() - begin,
    )


def _summary(said: tuple[TargetSaid, ...]) -> str:
    """By verdict, in the order in which the verdicts appear."""
    targets: dict[str, list[str]] = {}
    for row in said:
        targets.setdefault(row.verdict, [])
        if row.target not in targets[row.verdict]:
            targets[row.verdict].append(row.target)
    return "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in targets.items()) + "."


def _of_samples(generated: bool) -> tuple[str, ...]:
    return ("No data: saturation is checked on generated inputs.",) if generated else ()
