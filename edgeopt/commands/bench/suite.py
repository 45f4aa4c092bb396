"""Every model of a folder, one after another: a row each, and what holds over all of them."""

import math
from collections.abc import Callable
from pathlib import Path

import msgspec

from edgeopt.backends import BACKENDS
from edgeopt.bundle.read import is_bundle
from edgeopt.commands.bench.limits import check_of, exit_code
from edgeopt.commands.bench.request import Request
from edgeopt.errors import (
    EXIT_BUG,
    EXIT_CANCELLED,
    EXIT_TERMINATED,
    EdgeoptError,
    InputError,
    Terminated,
    UsageError,
    disk_full,
    is_disk_full,
    said_by,
)
from edgeopt.events import Emit, Progress
from edgeopt.importing.sources import is_source
from edgeopt.measure.report import Check, Comparison, ContestReport, Judgement, judgement
from edgeopt.measure.stats import Interval
from edgeopt.notebook import NotebookRecord

Measure = Callable[[Request, Emit], ContestReport]


class SuiteRow(msgspec.Struct, frozen=True):
    """One model: its report, or why there is none."""

    name: str
    report: ContestReport | None = None
    failure: str = ""
    hint: str = ""
    exit_code: int = 0


class SuiteMean(msgspec.Struct, frozen=True):
    """Speed of the models relative to one of the other sides, as a geometric mean."""

    against: str
    speedup: Interval | None
    """Mean speed-up, with the number of models as `rounds`; None if every model is left out."""
    faster: int = 0
    slower: int = 0
    left_out: tuple[str, ...] = ()
    """Models with too few rounds for an interval that ends on both sides."""


class SuiteReport(NotebookRecord, msgspec.Struct, frozen=True):
    folder: str
    models: tuple[SuiteRow, ...]
    against: tuple[str, ...] = ()
    """Other sides as requested, in the order of each report's sides after the first."""
    means: tuple[SuiteMean, ...] = ()
    """Means over the models that could be compared."""
    exit_code: int = 0
    """The exit code of the command: the worst of all models."""
    judgement: Judgement | None = None
    """Judgement of all models, each judged against the limits separately."""


def suite(folder: Path, request: Request, measure: Measure, emit: Emit) -> SuiteReport:
    """Measures each model; what one of them cannot do is its row and ends nothing.

    Ctrl-C or SIGTERM after the first model keeps what is done; before, they go on as everywhere.
    """
    if request.subject is not None or request.url is not None:
        raise UsageError("--suite measures the models in its folder.", "Leave out SUBJECT and --url.")
    if request.data is not None:
        raise UsageError(
            "--suite reads the data of each model from its folder.", "Put NAME.npz next to NAME.onnx."
        )
    if request.baseline_command is not None or any(
        Path(text).exists() or is_source(text) for text in request.against
    ):
        raise UsageError(
            "--suite compares each model with itself on another backend or with other options.",
            "Example: --against openvino-cpu, or --against threads=1.",
        )
    found = models_in(folder)
    rows: list[SuiteRow] = []
    try:
        for number, path in enumerate(found):
            emit(Progress("suite", path.name, number, len(found)))
            rows.append(_row(path, request, measure, emit))
    except KeyboardInterrupt as stop:
        if not rows:
            raise
        how, code = ("SIGTERM", EXIT_TERMINATED) if isinstance(stop, Terminated) else ("Ctrl-C", EXIT_CANCELLED)
        rows += [
            SuiteRow(path.name, None, f"It was not measured: {how} ended the suite.", exit_code=code)
            for path in found[len(rows) :]
        ]
    means = [mean for place, text in enumerate(request.against) if (mean := _mean(rows, place, text))]
    judged = _judged(rows, request)
    worst = exit_code(judged, max(row.exit_code for row in rows))
    return SuiteReport(str(folder), tuple(rows), request.against, tuple(means), worst, judged)


def models_in(folder: Path) -> list[Path]:
    """Models that a backend reads, and bundles, by name; raises InputError if there are none."""
    if not folder.is_dir():
        raise InputError(f"There is no folder '{folder}'.", "Give a folder of models to --suite.")
    formats = tuple(sorted({suffix for backend in BACKENDS for suffix in backend.formats}))
    found = [p for p in sorted(folder.iterdir()) if is_bundle(p) or (p.is_file() and p.name.endswith(formats))]
    if not found:
        raise InputError(f"The folder '{folder}' holds no models and no bundles.", "Put some .onnx files there.")
    return found


def data_beside(model: Path) -> Path | None:
    """Returns `NAME.npz` beside `NAME.onnx`, if it exists."""
    beside = model.with_name(model.name.partition(".")[0] + ".npz")
    return next((path for path in (model.with_suffix(".npz"), beside) if path.is_file()), None)


def comparison_with(row: SuiteRow, place: int) -> Comparison | None:
    """Returns the comparison of a model's first side with one of the others; None if too little was measured."""
    if row.report is None or place + 1 >= len(row.report.sides):
        return None
    name = row.report.sides[place + 1].name
    return next((c for c in row.report.comparisons if c.second == name), None)


def _row(path: Path, request: Request, measure: Measure, emit: Emit) -> SuiteRow:
    asked = msgspec.structs.replace(request, subject=str(path), data=data_beside(path))
    try:
        report = measure(asked, emit)
    except EdgeoptError as error:
        return SuiteRow(path.name, None, error.message, error.hint, error.exit_code)
    except BrokenPipeError:
        raise  # nobody reads the output any more
    except OSError as error:
        if is_disk_full(error):
            full = disk_full(error)
            return SuiteRow(path.name, None, full.message, full.hint, full.exit_code)
        where = f" ({error.filename})" if error.filename else ""
        words = f"The operating system refused: {error.strerror or error}{where}."
        return SuiteRow(path.name, None, words, exit_code=EXIT_BUG)
    except Exception as error:  # noqa: BLE001 - hours of other models are not lost to one
        words = f"edgeopt has an internal error: {type(error).__name__}: {said_by(error)}."
        hint = "Please report it. EDGEOPT_DEBUG=1 with this model alone shows the details."
        return SuiteRow(path.name, None, words, hint, EXIT_BUG)
    fallen = next((side for side in report.sides if side.failure), None)
    if fallen is not None:
        code = exit_code(report.judgement, 1)
        return SuiteRow(path.name, report, f"{fallen.name}: {fallen.failure}", exit_code=code)
    return SuiteRow(path.name, report, exit_code=exit_code(report.judgement))


def _judged(rows: list[SuiteRow], request: Request) -> Judgement | None:
    """Collects the checks of every model; a model that was not measured passes none."""
    limits = request.limits
    if not limits.least:
        return None
    checks: list[Check] = []
    for row in rows:
        if row.report is not None and row.report.judgement is not None:
            checks += row.report.judgement.checks
            continue
        why = row.failure.rstrip(".") or "it was not measured"
        checks += [
            check_of(limits, name, least, (row.name, f"itself with {text}"), why)
            for text in request.against
            for name, least in limits.least
        ]
    return judgement(limits, tuple(checks))


def _mean(rows: list[SuiteRow], place: int, text: str) -> SuiteMean | None:
    """Averages the models that ran on both sides; their half-widths add up like independent errors."""
    known = [(row.name, c) for row in rows if (c := comparison_with(row, place)) is not None]
    if not known:
        return None
    found = [(n, c) for n, c in known if c.speedup is not None]
    left_out = tuple(name for name, c in known if (name, c) not in found)
    ratios = [c.speedup for _, c in found if c.speedup is not None]
    if not ratios:
        return SuiteMean(text, None, left_out=left_out)
    center = sum(math.log(ratio.median) for ratio in ratios) / len(ratios)
    halves = [math.log(ratio.high / ratio.low) / 2 for ratio in ratios]
    half = math.sqrt(sum(h * h for h in halves)) / len(ratios)
    confidence = min(ratio.confidence for ratio in ratios)
    speedup = Interval(math.exp(center), math.exp(center - half), math.exp(center + half), len(ratios), confidence)
    return SuiteMean(
        text,
        speedup,
        sum(c.verdict == "faster" for _, c in found),
        sum(c.verdict == "slower" for _, c in found),
        left_out,
    )
