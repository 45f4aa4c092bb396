"""What can be told of the models themselves when the report is made: operators, cost, the time of each node."""

from collections.abc import Mapping
from pathlib import Path

from edgeopt.backends.base import Array
from edgeopt.bundle.read import Bundle
from edgeopt.commands.analyze.analyze import analyze
from edgeopt.commands.report.facts import Bound, OperatorCount, Work
from edgeopt.errors import EdgeoptError, ModelError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.analysis import Analysis, OpTimes
from edgeopt.hw.device import Device

_RUNS, _LIMIT_S = 60, 1.5


def analysis_of(path: Path, feeds: Mapping[str, Array] | None, device: Device) -> Analysis | str:
    """The model alone, asking no runtime; or why it cannot be told."""
    shapes = {name: tuple(array.shape) for name, array in feeds.items()} if feeds else {}
    try:
        try:
            return analyze(path, shapes=shapes, device=device, coverage=False, opportunities=False, run=False)
        except EdgeoptError:
            # The samples may leave out a batch axis of 1 that the model has.
            return analyze(path, device=device, coverage=False, opportunities=False, run=False)
    except EdgeoptError as error:
        return f"The model could not be read: {error.message}"


def source_analysis(path: Path, digest: str, feeds: Mapping[str, Array] | None, device: Device) -> Analysis:
    """Of the source model that the user named; ModelError where it is another one."""
    from edgeopt.graph.files.sniff import check_file

    check_file(path)
    found = analysis_of(path, feeds, device)
    if isinstance(found, str):
        raise ModelError(found, "Give the model that the bundle was made from.")
    if found.digest != digest:
        raise ModelError(
            f"'{path.name}' is not the model that the bundle was made from: its digest begins with "
            f"{found.digest[:12]}, and that of the source with {digest[:12]}.",
            "Give the model that the bundle was made from, or leave --model out.",
        )
    return found


def work_of(found: Analysis) -> Work:
    work = found.work
    return Work(
        found.nodes_count,
        found.parameters,
        found.size_bytes,
        work.macs if work and not work.unknown else None,
        work.moved_bytes if work and not work.unknown else None,
    )


def counts_of(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> tuple[OperatorCount, ...]:
    """Each operator of either, those first that there are most of."""
    names = [*(before or {}), *(name for name in after or {} if name not in (before or {}))]
    rows = [
        OperatorCount(
            name,
            None if before is None else before.get(name, 0),
            None if after is None else after.get(name, 0),
        )
        for name in names
    ]
    return tuple(sorted(rows, key=lambda row: (-max(row.before or 0, row.after or 0), row.operator)))


def operators_in(found: Analysis) -> dict[str, int]:
    counted: dict[str, int] = {}
    for row in found.operators:
        name = f"{row.domain}.{row.operator}" if row.domain else row.operator
        counted[name] = counted.get(name, 0) + row.count
    return counted


def node_times(
    bundle: Bundle, found: Analysis, feeds: Mapping[str, Array], device: Device, emit: Emit = ignore
) -> OpTimes | str:
    """Where the time of a run goes on this device now, in the bundle's runtime and options; or why not."""
    from edgeopt.measure.op_times import Timing, profile_ops

    run = bundle.deployment.run
    emit(Progress("timing the nodes", run.backend))
    threads = run.options.get("threads")
    # Those of a batch would not fit the one golden sample.
    of_one = {"shapes": {name: list(array.shape) for name, array in feeds.items()}}
    timing = Timing(
        threads=threads if isinstance(threads, int) else None,
        options={**run.options, **(of_one if "shapes" in run.options else {})},
        device=device,
        runs=_RUNS,
        limit_s=_LIMIT_S,
    )
    try:
        times = profile_ops(bundle.model, found, (run.backend,), dict(feeds), timing)[0]
    except EdgeoptError as error:
        return error.message
    return times if times.rows else f"Nothing was measured: {times.reason or 'no node ran'}"


def bounds_of(device: Device, threads: int | None) -> tuple[Bound, ...]:
    """The measured peaks for this number of threads, as upper bounds."""
    peaks, used = device.peaks, threads or device.limits.usable_cores
    if peaks is None:
        return ()
    best: dict[str, float] = {}
    for each in peaks.compute:
        if each.threads == used:
            best[each.precision] = max(best.get(each.precision, 0.0), each.operations_per_s)
    compute = [Bound(name, operations_per_s=rate) for name, rate in best.items()]
    memory = [
        Bound(each.level, bytes_per_s=rate)
        for each in peaks.memory
        if each.threads == used and (rate := each.copy_bytes_per_s or each.read_bytes_per_s) is not None
    ]
    return (*compute, *memory)
