"""Records of searches, benches, quantizations and labs as runs: params, metrics, tags and files."""

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.bundle.deployment import FILE as DEPLOYMENT
from edgeopt.bundle.deployment import Deployment, machine_of
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.commands.report.evidence import FILE as EVIDENCE
from edgeopt.commands.report.evidence import evidence_in
from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError
from edgeopt.events import Error, Result, decode
from edgeopt.hw.device import Device, fingerprint
from edgeopt.lab.records import FILE as LAB_FILE
from edgeopt.lab.records import LabResults, read_results, results_file
from edgeopt.measure.messages import Memory
from edgeopt.measure.report import Comparison, Figures, Judgement
from edgeopt.measure.stats import Interval, with_open_ends
from edgeopt.pipeline.outcome import Outcome
from edgeopt.quant.measured.records import Quantized

STDIN = Path("-")
_MIB = 2**20
_HINT = "Give the lines of --json of optimize, quantize, bench or lab, a bundle, or the folder of a lab's results."


class RunRecord(msgspec.Struct, frozen=True):
    """One run for a tracking server."""

    name: str
    kind: str
    """`optimize`, `quantize`, `bench`, `lab` or `bundle`."""
    files: dict[str, str]
    """Texts of the files by name; the record itself is one of them."""
    params: dict[str, str] = {}
    metrics: dict[str, float] = {}
    tags: dict[str, str] = {}
    begin_s: float | None = None
    """Time of the start, in seconds since 1970; None if the record does not have it."""
    end_s: float | None = None
    failed: bool = False

    @property
    def digest(self) -> str:
        """Digest by which the same run is recognized when it is logged again."""
        content = msgspec.json.encode((self.kind, self.name, self.files), order="sorted")
        return hashlib.sha256(content).hexdigest()


class BenchSide(msgspec.Struct, frozen=True):
    """Fields that all duties of a bench have, or some of them."""

    name: str
    subject: str = ""
    backend: str = ""
    options: dict[str, Any] = {}
    figures: Figures | None = None
    memory: Memory | None = None
    first_token_ms: float | None = None
    tokens_per_s: float | None = None


class BenchRecord(msgspec.Struct, frozen=True):
    """A report of `edgeopt bench`, of any duty."""

    duty: str
    sides: tuple[BenchSide, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    device: dict[str, str] = {}
    machine: dict[str, str] = {}
    versions: dict[str, str] = {}
    measured_at: str = ""
    judgement: Judgement | None = None


def runs_in(path: Path) -> tuple[RunRecord, ...]:
    """Returns the runs of a file, a bundle or a lab; raises InputError if there are none."""
    if path != STDIN and is_bundle(path):
        return (_bundle_run(path),)
    if path.is_dir() or path.name == LAB_FILE:
        return tuple(_lab_runs(read_results(path), results_file(path).parent))
    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}.", "Check the path.") from None
    name = "stdin" if path == STDIN else f"'{path}'"
    runs: list[RunRecord] = []
    failure = ""
    for line in filter(bytes.strip, content.splitlines()):
        try:
            event = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{name} has a line that is not a record of --json: {error}.", _HINT) from None
        if isinstance(event, Error):
            failure = f" The command failed: {event.message}"
        elif isinstance(event, Result):
            runs += _runs_of(event, name)
    if not runs:
        raise InputError(f"{name} has no result to log.{failure}", _HINT)
    return tuple(runs)


def _runs_of(result: Result, source: str) -> Iterator[RunRecord]:
    kind, make = _KINDS.get(result.kind, (None, None))
    if kind is None or make is None:
        return
    try:
        found = msgspec.convert(with_open_ends(result.data), thread_safe(kind), str_keys=True)
    except msgspec.ValidationError as error:
        raise InputError(
            f"The result of {result.kind} in {source} cannot be read: {error}.", "Update edgeopt here."
        ) from None
    yield from make(found, _text(result.data))


def _outcome_runs(outcome: Outcome, record: str) -> Iterator[RunRecord]:
    proof = outcome.proof
    own = next((each for each in outcome.candidates if each.candidate == outcome.winner), None)
    yield RunRecord(
        outcome.model,
        "optimize",
        {"optimize.json": record},
        _params(
            model=outcome.model,
            model_digest=outcome.model_digest,
            target=outcome.target,
            device=_words(outcome.device),
            objective=outcome.objective,
            winner=outcome.winner.name,
            baseline=outcome.baseline.name,
            backend=outcome.winner.backend,
            options=_options(outcome.winner.options),
        ),
        {
            **_speedup(proof.speedup),
            **_numbers(
                latency_ms=proof.latency_ms,
                baseline_ms=proof.baseline_ms,
                accuracy_db=proof.accuracy_db,
                peak_memory_mib=_mib(proof.memory.peak_bytes if proof.memory else None),
                size_mib=_mib(own.size_bytes if own else None),
                throughput_per_s=own.throughput_per_s if own else None,
                search_s=outcome.seconds,
            ),
        },
        {"edgeopt.verdict": outcome.verdict, **_print(outcome.device)},
    )


def _quantized_runs(found: Quantized, record: str) -> Iterator[RunRecord]:
    proof, memory = found.proof, found.memory.get("result")
    faster = found.speedup.stated if found.speedup else None
    model = Path(found.model).name
    yield RunRecord(
        model,
        "quantize",
        {"quantize.json": record},
        _params(
            model=model,
            device=_words(found.device),
            method=found.method,
            backend=found.backend,
            options=_options(found.options),
        ),
        {
            **_speedup(found.speedup),
            **_speedup(found.source_speedup, "source_speedup"),
            **_numbers(
                latency_ms=found.float_ms / faster.median if found.float_ms and faster else None,
                float_ms=found.float_ms,
                accuracy_db=proof.snr_db if proof else None,
                peak_memory_mib=_mib(memory.peak_bytes if memory else None),
                size_mib=_mib(sum(each.size_bytes for each in found.files) or None),
                source_size_mib=_mib(found.source_bytes or None),
                quantized_share=found.quantized_share,
            ),
        },
        {"edgeopt.verdict": found.outcome, **_print(found.device)},
    )


def _bench_runs(found: BenchRecord, record: str) -> Iterator[RunRecord]:
    """Yields a run for each comparison, or one if there is none."""
    sides = {each.name: each for each in found.sides}
    first = found.sides[0] if found.sides else BenchSide("")
    model = Path(first.subject or first.name).name
    checks = found.judgement.checks if found.judgement else ()
    for comparison in found.comparisons or (None,):
        against = comparison.second if comparison else ""
        other = sides.get(against, BenchSide(""))
        passed = [each.passed for each in checks if each.second == against]
        yield RunRecord(
            f"{model} against {against}" if against else model,
            "bench",
            {"bench.json": record},
            _params(
                model=model,
                device=_joined(found.machine),
                against=against,
                duty=found.duty,
                backend=first.backend,
                options=_options(first.options),
            ),
            {
                **_speedup(comparison.speedup if comparison else None),
                **_numbers(
                    latency_ms=first.figures.p50_ms if first.figures else None,
                    p99_ms=first.figures.p99_ms if first.figures else None,
                    throughput_per_s=first.figures.throughput_per_s if first.figures else None,
                    first_token_ms=first.first_token_ms,
                    tokens_per_s=first.tokens_per_s,
                    against_ms=other.figures.p50_ms if other.figures else None,
                    peak_memory_mib=_mib(first.memory.peak_bytes if first.memory else None),
                ),
            },
            {
                **({"edgeopt.verdict": comparison.verdict} if comparison else {}),
                **({"edgeopt.limits": "passed" if all(passed) else "failed"} if passed else {}),
                **_version(found.versions.get("edgeopt", "")),
                **_fingerprint(found.device),
            },
            _time(found.measured_at),
        )


def _lab_runs(found: LabResults, folder: Path | None = None) -> Iterator[RunRecord]:
    """Yields a run for each cell that ended; with the folder of the results, with the evidence of its bundle."""
    for cell in found.cells:
        if cell.status not in {"done", "failed"}:
            continue
        # Whether a later run kept the cell says nothing of it, and must not make it another run.
        record = _text(msgspec.to_builtins(msgspec.structs.replace(cell, kept=False, phase="")))
        bundle = folder / cell.bundle if folder and cell.bundle else None
        race = cell.race
        yield RunRecord(
            cell.name,
            "lab",
            {"cell.json": record, **(_files_of(bundle) if bundle else {})},
            _params(
                model=cell.model,
                model_digest=cell.key.model_digest,
                device=cell.device,
                lab=found.lab,
                winner=cell.winner,
                options=" ".join(cell.key.options),
            ),
            {
                **_speedup(cell.speedup),
                **_speedup(race.speedup if race else None, "speedup_over_last"),
                **_numbers(
                    latency_ms=cell.latency_ms,
                    baseline_ms=cell.baseline_ms,
                    accuracy_db=cell.accuracy_db,
                    peak_memory_mib=_mib(cell.peak_bytes),
                    size_mib=_mib(_size_of(bundle) if bundle else None),
                ),
            },
            {
                "edgeopt.verdict": cell.verdict or "failed",
                **({"edgeopt.reason": cell.reason} if cell.reason else {}),
                **({"edgeopt.limits": race.state} if race else {}),
                **_version(cell.key.version),
                **_fingerprint(cell.fingerprint),
            },
            cell.begin_s or None,
            cell.end_s or None,
            cell.status == "failed",
        )


def _bundle_run(path: Path) -> RunRecord:
    """Returns the run of a bundle: its deployment, and what its evidence adds."""
    bundle = read_bundle(path)
    deployment, files = bundle.deployment, _files_of(bundle.folder)
    found = evidence_in(bundle.folder)
    more = RunRecord("", "", {})
    if isinstance(found, Outcome):
        more = next(_outcome_runs(found, ""))
    elif isinstance(found, Quantized):
        more = next(_quantized_runs(found, ""))
    proof = deployment.evidence
    measured = {} if proof is None else _numbers(
        latency_ms=proof.latency_ms,
        baseline_ms=proof.baseline_ms,
        speedup=proof.speedup,
        speedup_low=proof.speedup_low,
        speedup_high=proof.speedup_high,
        accuracy_db=proof.accuracy_db,
    )  # fmt: skip
    return RunRecord(
        deployment.name,
        "bundle",
        files,
        {**more.params, **_deployed(deployment)},
        {**more.metrics, **measured, **_numbers(size_mib=_mib(_size_of(bundle.folder)))},
        {**more.tags, **_version(deployment.edgeopt), **_fingerprint(deployment.device)},
        _time(deployment.created),
    )


def _deployed(deployment: Deployment) -> dict[str, str]:
    return _params(
        model=deployment.source.name,
        model_digest=deployment.source.sha256,
        target=deployment.target,
        device=_joined(deployment.machine),
        backend=deployment.run.backend,
        options=_options(deployment.run.options),
    )


def _files_of(bundle: Path) -> dict[str, str]:
    names = (DEPLOYMENT, EVIDENCE)
    return {name: (bundle / name).read_text("utf-8", "replace") for name in names if (bundle / name).is_file()}


def _size_of(bundle: Path) -> int | None:
    """Returns the size of the model's files in a bundle."""
    return sum(each.stat().st_size for each in (bundle / "model").rglob("*") if each.is_file()) or None


def _speedup(found: Interval | None, name: str = "speedup") -> dict[str, float]:
    if found is None or found.stated is None:
        return {}
    return _numbers(**{name: found.median, f"{name}_low": found.low, f"{name}_high": found.high})


def _numbers(**values: float | None) -> dict[str, float]:
    """Returns the values that are known and finite."""
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def _params(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _mib(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else size_bytes / _MIB


def _options(options: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())


def _words(device: Device | None) -> str:
    return "" if device is None else _joined(machine_of(device))


def _joined(machine: Mapping[str, str]) -> str:
    return "; ".join(machine.values())


def _print(device: Device | None) -> dict[str, str]:
    return {} if device is None else _fingerprint(fingerprint(device))


def _fingerprint(parts: Mapping[str, str]) -> dict[str, str]:
    return {f"edgeopt.device.{name}": digest for name, digest in parts.items()}


def _version(version: str) -> dict[str, str]:
    return {"edgeopt.version": version} if version else {}


def _time(text: str) -> float | None:
    """Returns the time in seconds since 1970; None for text that is not a time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _text(data: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=1).decode()


_KINDS: dict[str, tuple[Any, Callable[[Any, str], Iterator[RunRecord]]]] = {
    "optimize": (Outcome, _outcome_runs),
    "quantize": (Quantized, _quantized_runs),
    "bench": (BenchRecord, _bench_runs),
    "lab": (LabResults, lambda found, _record: _lab_runs(found)),
}
