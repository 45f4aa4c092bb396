"""`edgeopt bench` and `edgeopt watch`: sides under a workload, and the report."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available, fallback
from edgeopt.bundle.deployment import machine_of
from edgeopt.commands.bench.limits import Judged, judge, refuse_without_verdict
from edgeopt.commands.bench.naming import first_side, read_options
from edgeopt.commands.bench.request import Request, WatchRequest, check, levels, sides_of
from edgeopt.commands.bench.saved import save
from edgeopt.commands.bench.sides import PreparedSides, Settings, prepare
from edgeopt.commands.bench.sweep import Sweep, SweepReport, sweep
from edgeopt.errors import ConstraintError, TrialError, UsageError
from edgeopt.events import Emit, Event, Log, Progress
from edgeopt.hw.device import Unavailable, fingerprint
from edgeopt.hw.probe import probe
from edgeopt.measure.contender import Side, ask, load_patience_s
from edgeopt.measure.contest import contest
from edgeopt.measure.files import check_place
from edgeopt.measure.instruments.counters import open_counters
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.messages import Loaded, Placed, Places
from edgeopt.measure.report import ContestReport, SideReport
from edgeopt.measure.sequential import Rules
from edgeopt.measure.stages import with_stages
from edgeopt.measure.stats import IDENTICAL, UNITY
from edgeopt.measure.watch import WatchReport
from edgeopt.measure.watch import watch as watch_side
from edgeopt.measure.workloads.cold import run_cold
from edgeopt.measure.workloads.concurrent import run_concurrent
from edgeopt.measure.workloads.generate import run_generate
from edgeopt.measure.workloads.paced import run_paced
from edgeopt.measure.workloads.records import (
    ColdReport,
    ColdRules,
    ConcurrencyReport,
    ConcurrentRules,
    GenerateReport,
    PacedReport,
    PacedRules,
    SustainedReport,
    SustainedRules,
)
from edgeopt.measure.workloads.sustained import run_sustained
from edgeopt.version import __version__
from edgeopt.workers.host import LocalHost
from edgeopt.workspace import workspace


def refuse_fallback(sides: list[Side], folder: Path, emit: Emit, timeout_s: float | None = None) -> None:
    """Raises ConstraintError for the first side that would run in part on another provider or device."""
    for side in sides:
        if side.kind not in {"model", "bundle"}:
            continue
        emit(Progress("looking for fallback", side.name))
        with closing(LocalHost(folder).start()) as child:
            try:
                answer = ask(
                    child,
                    msgspec.structs.replace(side.load, strict=False),
                    timeout_s or load_patience_s(side.load),
                )
            except TrialError:
                continue  # the measurement reports how it fails
        message = fallback(answer.placement) if isinstance(answer, Loaded) else None
        if message is not None:
            raise ConstraintError(
                f"'{side.name}': {message}.",
                "Measure it without --strict, or name a backend that runs all of it.",
            )


def _timed(report: SideReport, side: Side, folder: Path, emit: Emit) -> SideReport:
    placement = report.placement
    if placement is None or not placement.fallen:
        return report
    emit(Progress("timing what fell back", side.name))
    with closing(LocalHost(folder).start()) as child:
        try:
            answer = ask(child, Places(side.load), load_patience_s(side.load))
        except TrialError:
            return report  # the figures stand without it
    if not isinstance(answer, Placed) or not answer.time_ms:
        return report
    return msgspec.structs.replace(report, placement=msgspec.structs.replace(placement, time_ms=answer.time_ms))


def _not_counted(sides: tuple[SideReport, ...]) -> tuple[str, ...]:
    """Returns sentences on what the counters did not count; empty if they counted all."""
    found = open_counters()
    if isinstance(found, Unavailable):
        return (f"No hardware counters: {found.reason.rstrip('.')}.",)
    missing = dict(found.missing)
    found.close()
    sentences = []
    for reason in dict.fromkeys(missing.values()):
        names = [name.replace("_", " ") for name, why in missing.items() if why == reason]
        sentences.append(f"Not counted: {', '.join(names)}: {reason.rstrip('.')}.")
    if found.user_only:
        sentences.append("The counters exclude the kernel's work for the model.")
    uncounted = [side.name for side in sides if not side.counters_per_run and side.failure is None]
    if uncounted:
        sentences.append(f"No counters for {', '.join(uncounted)}: a served model runs in another process.")
    return tuple(sentences)


_Rules = TypeVar("_Rules", bound=msgspec.Struct)
_COMPARISONS = ("comparisons", "load_comparisons", "tail_comparisons", "first_comparisons")
Report = (
    ContestReport | ColdReport | PacedReport | GenerateReport | SustainedReport | ConcurrencyReport | SweepReport
)


def bench(request: Request, emit: Emit, unwritten: list[str] | None = None) -> Report:
    """Measures what was asked for; raises what is wrong with that before anything runs.

    A report that cannot be written is still returned; `unwritten` receives the reasons, one sentence each.
    """
    check(request)
    limits = request.limits
    named = sides_of(request)
    if request.save is not None:
        files = [each.path for each in named if each.kind in {"model", "bundle"}]
        check_place(request.save, "The report", [*files, request.data])
    refuse_without_verdict(limits, len(named), request.duty or "", request.sweep is not None)
    with workspace() as folder:
        prepared = prepare(named, request.settings, folder, emit)
        if request.strict:
            refuse_fallback(prepared.sides, folder, emit, request.load_timeout_s)
        report = _without_self_contests(_measured(request, prepared, folder, emit), prepared.sides)
        device = probe()
        report = msgspec.structs.replace(report, machine=machine_of(device))
        if isinstance(report, ContestReport):
            report = msgspec.structs.replace(report, device=fingerprint(device))
    if limits.minimum and isinstance(report, Judged):
        report = msgspec.structs.replace(report, judgement=judge(report, limits))
    _save(report, request.save, emit, unwritten)
    return report


def _without_self_contests(report: Report, sides: Sequence[Side]) -> Report:
    """Replaces the comparisons of a model with itself, whose two processes differ only by noise."""
    same = {side.name for side in sides if side.same_as_first}
    changed = {
        field: tuple(
            msgspec.structs.replace(each, speedup=UNITY, verdict=IDENTICAL, at_most_percent=None)
            if each.second in same
            else each
            for each in getattr(report, field)
        )
        for field in _COMPARISONS
        if same and hasattr(report, field)
    }
    return msgspec.structs.replace(report, **changed)


def _save(report: Report, place: Path | None, emit: Emit, unwritten: list[str] | None) -> None:
    """Minutes of measuring are not lost because a disk is full or a reader went away."""
    if place is None:
        return
    try:
        save(report, place)
    except OSError as error:
        reason = f"The report could not be written to '{place}': {error.strerror or error}."
        if unwritten is not None:
            unwritten.append(reason)
        emit(Log("warning", reason))


def _measured(request: Request, prepared: PreparedSides, folder: Path, emit: Emit) -> Report:
    host = LocalHost(folder)
    sides, rounds = prepared.sides, request.rounds
    if (plan := prepared.generation) is not None:
        answers = run_generate(host, sides, plan.prompts, plan.rules, emit)
        warnings = (plan.warning,) if plan.warning else ()
        return msgspec.structs.replace(
            answers, data=plan.words(answers.prompts), warnings=warnings + answers.warnings
        )
    if request.concurrency or request.processes:
        threads, processes = levels(request.concurrency, "--concurrency"), levels(request.processes, "--processes")
        rules = ConcurrentRules(threads or (1,), processes)
        return run_concurrent(host, sides, _with(rules, "rounds", rounds), emit)
    if request.sweep is not None:
        return _sweep(request, prepared, host, emit)
    if request.duty == "cold":
        return run_cold(host, sides, _with(ColdRules(), "repetitions", rounds), emit)
    if request.duty == "paced":
        assert request.rate_per_s is not None  # noqa: S101 - checked
        rules_of_pace = _with(PacedRules(request.rate_per_s), "rounds", rounds)
        with _metered(sides, emit) as meter:
            return run_paced(host, sides, rules_of_pace, emit, meter)
    if request.duty == "sustained":
        minutes = request.minutes
        lasting = SustainedRules() if minutes is None else SustainedRules(minutes)
        with _metered(sides, emit) as meter:
            return run_sustained(host, sides, lasting, emit, meter)
    report = _contest(request, prepared, host, emit)
    timed = tuple(
        _timed(side_report, side, folder, emit) for side_report, side in zip(report.sides, sides, strict=True)
    )
    return msgspec.structs.replace(report, sides=with_stages(timed, sides, folder, emit))


def _sweep(request: Request, prepared: PreparedSides, host: LocalHost, emit: Emit) -> SweepReport:
    assert request.sweep is not None  # noqa: S101 - asked for
    (side,) = prepared.sides
    limited = request.rounds is not None or request.time_limit_s is not None
    inputs = prepared.inputs
    spec = Sweep(
        request.sweep,
        inputs.tensors,
        inputs.folder.parent,
        request.runs,
        _rules(request) if limited else None,
        request.load_timeout_s,
    )
    found = sweep(host, side, spec, _in_one_phase(emit), StateSampler(lambda: ()))
    return msgspec.structs.replace(found, data=inputs.words)


def _rules(request: Request) -> Rules:
    rules = _with(Rules(), "load_patience_s", request.load_timeout_s)
    rules = msgspec.structs.replace(rules, limits=tuple(minimum for _, minimum in request.limits.minimum))
    return _with(_with(rules, "max_rounds", request.rounds), "time_limit_s", request.time_limit_s)


def _contest(request: Request, prepared: PreparedSides, host: LocalHost, emit: Emit) -> ContestReport:
    sides = prepared.sides
    # The server of a served model is one of the "others" that a quiet device would be without.
    state = StateSampler(lambda: (), judge_others=all(side.kind != "url" for side in sides))
    with _metered(sides, emit) as meter:
        report = contest(host, sides, _rules(request), _in_one_phase(emit), state, meter)
    return msgspec.structs.replace(
        report,
        data=prepared.inputs.words,
        versions=_versions(sides),
        originals=prepared.originals,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        warnings=report.warnings + (_not_counted(report.sides) if request.counters else ()),
    )


@contextmanager
def _metered(sides: list[Side], emit: Emit) -> Iterator[EnergyMeter | Unavailable]:
    """Yields the device's energy meter, after it has measured the idle device."""
    on_gpu = [side.load for side in sides if side.load.backend.endswith(("-cuda", "-tensorrt"))]
    numbers = [load.options.get("device_id", 0) for load in on_gpu]
    meter = EnergyMeter.open(gpus=sorted({number for number in numbers if isinstance(number, int)}))
    if not isinstance(meter, EnergyMeter):
        yield meter
        return
    try:
        emit(Progress("measuring the idle device"))
        meter.measure_idle()
        yield meter
    finally:
        meter.close()


def _in_one_phase(emit: Emit) -> Emit:
    """Wraps `emit` so that restarting processes between rounds counts as measuring, not as a separate phase."""
    measuring = False

    def emit_as_measuring(event: Event) -> None:
        nonlocal measuring
        if isinstance(event, Progress):
            measuring = measuring or event.phase == "measuring"
            if measuring and event.phase == "loading":
                event = msgspec.structs.replace(event, phase="measuring", message=f"{event.message} again")
        emit(event)

    return emit_as_measuring


def _with(rules: _Rules, name: str, value: float | None) -> _Rules:
    return rules if value is None else msgspec.structs.replace(rules, **{name: value})


def _versions(sides: list[Side]) -> dict[str, str]:
    """Returns the installed versions of edgeopt and of what runs the models."""
    versions = {"edgeopt": __version__}
    for side in sides:
        if side.kind in {"model", "bundle"}:
            backend = backend_named(side.load.backend)
            found = backend.available()
            if backend.package and isinstance(found, Available):
                versions[backend.package] = found.version
    return versions


def watch(request: WatchRequest, emit: Emit) -> WatchReport:
    """Runs a side over and over and tells how it fares; without `seconds`, until it is stopped."""
    named = first_side(request.subject, request.backend, read_options(list(request.options)))
    settings = Settings(request.data, request.custom_ops, request.strict, threads=request.threads, pre=request.pre)
    rate_per_s, seconds = request.rate_per_s, request.seconds
    for value, what in ((rate_per_s, "rate"), (seconds, "number of seconds")):
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{value} is not a {what}.", "Give a number above 0.")
    with workspace() as folder:
        prepared = prepare([named], settings, folder, emit)
        (side,) = prepared.sides
        if settings.strict:
            refuse_fallback([side], folder, emit)
        return watch_side(LocalHost(folder), side, rate_per_s, seconds, emit)
