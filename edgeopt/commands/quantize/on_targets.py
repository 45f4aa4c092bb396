"""A quantized file seen from the sides of other targets, without making anything."""

import time

from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.files.sniff import check_file
from edgeopt.quant.measured.records import Quantized, QuantizeRequest
from edgeopt.quant.records import TargetSaid


def checked(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """What `edgeopt quantize MODEL --check-targets` does without -o: the model is taken as it is."""
    from edgeopt.quant.provider_rules import check_targets

    begin = time.monotonic()
    check_file(request.model)
    emit(Progress("checking targets", ", ".join(request.check_targets)))
    said = check_targets(request.model, request.check_targets)
    return Quantized(
        "reported",
        _summary(said),
        str(request.model),
        "",
        "",
        {},
        request.shown_goal,
        targets=said,
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
