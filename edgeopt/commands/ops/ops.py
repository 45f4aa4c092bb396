"""`edgeopt ops`: cached results, the rest measured, in one report, with what it means for a model."""

import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Backend
from edgeopt.commands.ops.case import (
    STATUSES,
    BackendRow,
    CaseRow,
    MeasuredOperator,
    OperatorCase,
    OperatorFigures,
    Port,
    Report,
    Status,
)
from edgeopt.commands.ops.cases import FAMILIES, operators
from edgeopt.commands.ops.compatibility import compatibility, kinds_of
from edgeopt.commands.ops.request import OpsRequest
from edgeopt.commands.ops.request import operators as requested_operators
from edgeopt.commands.ops.run import CaseBackends, measure
from edgeopt.decoding import thread_safe
from edgeopt.errors import MissingError, ModelError, UsageError, pip_install
from edgeopt.events import Emit, Log
from edgeopt.graph.analysis.roofline import minimum
from edgeopt.hw.device import Device, Unavailable, fingerprint
from edgeopt.hw.probe import probe
from edgeopt.nearest import nearest
from edgeopt.platform.user_folders import put, user_cache_folder
from edgeopt.version import __version__

METHOD = 2
"""Version of the method of measuring and judging: figures of different versions are not comparable."""
_CPU_PARTS = ("host", "cpu", "limits", "memory")
_OTHER_PARTS = (*_CPU_PARTS, "accelerators", "drivers")

Cached = dict[str, MeasuredOperator]
"""Results by the digest of the case."""
_STORE_EVERY_S = 5.0
_ONNX = ".onnx"


class OperatorChoice(msgspec.Struct, frozen=True):
    backends: tuple[str, ...] = ()
    """Names of backends; empty: all that are available here."""
    only: tuple[str, ...] = ()
    """Names of operators; empty: all."""
    precisions: tuple[str, ...] = ()
    """Names of precisions; empty: all."""
    quick: bool = False
    """Whether to run small shapes only."""
    again: bool = False
    """Whether to measure again what was measured before."""


def cache_file(folder: Path, device: Device, backend: str, version: str) -> Path:
    """Returns the file for a backend on this device; another runtime, edgeopt or driver has another file."""
    parts = fingerprint(device)
    names = _CPU_PARTS if backend.endswith("-cpu") else _OTHER_PARTS
    parts_of_key = [*(parts[name] for name in names), backend, version, __version__]
    digest = hashlib.sha256("\n".join(parts_of_key).encode()).hexdigest()[:32]
    return folder / f"ops-{METHOD}-{digest}.json"


def load_cache(file: Path | None) -> Cached:
    """Reads the cached results; a missing or damaged file has none."""
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=thread_safe(Cached))
    except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}


def store_cache(file: Path, kept: Cached) -> str | None:
    """Replaces the file in one step; why it could not, or None."""
    return put(file, msgspec.json.encode(kept))


class _ResultCache:
    """Results of each backend, cached and new, and the cache files that store the lasting ones."""

    def __init__(self, device: Device, rows: Sequence[BackendRow], emit: Emit) -> None:
        folder = user_cache_folder()
        self._emit = emit
        self._files = {
            row.name: None if folder is None else cache_file(folder, device, row.name, row.version or "")
            for row in rows
        }
        self.known = {name: load_cache(file) for name, file in self._files.items()}
        self.new = 0
        self._new: set[tuple[str, str]] = set()
        self._worth_measuring = device.state.worth_measuring if device.state else None
        self._stored = time.monotonic()

    def add(self, backend: str, case: OperatorCase, measured: MeasuredOperator) -> None:
        result = msgspec.structs.replace(measured, worth_measuring=self._worth_measuring)
        self.known[backend][case.digest] = result
        self._new.add((backend, case.digest))
        self.new += 1
        if time.monotonic() - self._stored > _STORE_EVERY_S:
            self.store()

    def store(self) -> None:
        if self.new:
            problems = [store_cache(file, self._lasting(name)) for name, file in self._files.items() if file]
            problem = next((each for each in problems if each), None)
            if problem and self._files:
                self._emit(Log("warning", f"The results are not cached: {problem}."))
                self._files = {}
        self._stored = time.monotonic()

    def is_doubtful(self, backend: str, case: OperatorCase) -> bool:
        """Whether a result is from the cache, measured when the device was in no state worth measuring."""
        is_old = (backend, case.digest) not in self._new
        return is_old and self.known[backend][case.digest].worth_measuring is False

    def _lasting(self, backend: str) -> Cached:
        return {digest: measured for digest, measured in self.known[backend].items() if measured.lasts}


def ops(request: OpsRequest, emit: Emit) -> Report:
    choice = OperatorChoice(
        request.backend, requested_operators(request), quick=request.quick, again=request.again
    )
    if request.model is None:
        return assess(probe(), choice, emit)
    from edgeopt.graph.analysis.onnx import analyze_onnx

    analysis = analyze_onnx(request.model)
    used, precisions = kinds_of(analysis)
    if not used:
        raise ModelError(
            f"No operator of '{request.model.name}' has a test.",
            "List its operators: edgeopt analyze MODEL",
        )
    report = assess(probe(), msgspec.structs.replace(choice, only=used, precisions=precisions), emit)
    return msgspec.structs.replace(report, model=compatibility(analysis, report))


def assess(device: Device, choice: OperatorChoice, emit: Emit) -> Report:
    """Tries each case on each backend, unless that is known already."""
    begin = time.monotonic()
    rows = _backend_rows(choice.backends)
    present = [row for row in rows if row.version is not None]
    if not present:
        reasons = "; ".join(f"{row.name}: {row.reason}" for row in rows)
        raise MissingError(
            f"No backend can be tested: {reasons or 'there is none'}.",
            f"Install a runtime, such as: {pip_install('cpu')}",
        )
    chosen = _chosen(choice)
    cache = _ResultCache(device, present, emit)
    missing: list[CaseBackends] = []
    for _, case in chosen:
        names = tuple(row.name for row in present if choice.again or case.digest not in cache.known[row.name])
        if names:
            missing.append((case, names))
    if missing:
        if device.state and not device.state.worth_measuring:
            warning = "The state of this device does not allow reliable measurements; times may be too long."
            emit(Log("warning", warning))
        try:
            measure(missing, device, emit, cache.add)
        finally:
            cache.store()
    cases = tuple(_row(device, family, case, present, cache) for family, case in chosen)
    return Report(
        backends=tuple(rows),
        cases=cases,
        threads=device.limits.usable_cores,
        took_s=round(time.monotonic() - begin, 2),
        measured=cache.new,
        counts={row.name: _counts(cases, row.name) for row in present},
        doubtful=sum(cache.is_doubtful(row.name, case) for row in present for _, case in chosen),
        edgeopt=__version__,
    )


def _backend_rows(names: Sequence[str]) -> list[BackendRow]:
    """Returns the named backends, each with the reason if it is missing; otherwise all available ones."""
    if names:
        return [_backend_row(backend_named(name)) for name in dict.fromkeys(names)]
    own = (backend for backend in BACKENDS if _ONNX in backend.formats and not backend.chooses_device)
    rows = (_backend_row(backend) for backend in own)
    return [row for row in rows if row.version is not None]


def _backend_row(backend: Backend) -> BackendRow:
    if _ONNX not in backend.formats:
        raise UsageError(
            f"The backend {backend.name} runs no ONNX models.",
            f"Name one of: {', '.join(each.name for each in BACKENDS if _ONNX in each.formats)}.",
        )
    found = backend.available()
    if isinstance(found, Unavailable):
        return BackendRow(backend.name, backend.title, None, found.reason, found.extra)
    return BackendRow(backend.name, backend.title, found.version)


def _chosen(choice: OperatorChoice) -> list[tuple[str, OperatorCase]]:
    known = {name.lower(): name for name in operators()}
    for name in choice.only:
        if name.lower() not in known:
            raise UsageError(f"There is no test of the operator '{name}'.", nearest(name, known.values()))
    only = {known[name.lower()] for name in choice.only}
    return [
        (family, case)
        for family, cases in FAMILIES
        for case in cases
        if (not only or case.operator in only)
        and (not choice.precisions or case.precision in choice.precisions)
        and (case.size == "small" or not choice.quick)
    ]


def _row(
    device: Device, family: str, case: OperatorCase, present: list[BackendRow], cache: _ResultCache
) -> CaseRow:
    return CaseRow(
        family=family,
        operator=case.operator,
        variant=case.variant,
        size=case.size,
        precision=case.precision,
        opset=case.opset,
        inputs=tuple(_input(case, port) for port in case.ports),
        attributes=case.attributes,
        results={
            row.name: _figures(device, row.name, case, cache.known[row.name][case.digest]) for row in present
        },
    )


def _input(case: OperatorCase, port: Port | None) -> str:
    if port is None:
        return ""
    dtype = {"fp32": "float32", "fp16": "float16", "int8": "int8"}[case.precision]
    return f"{dtype if port.dtype == 'float' else port.dtype} {list(port.shape)}"


def _figures(device: Device, backend: str, case: OperatorCase, measured: MeasuredOperator) -> OperatorFigures:
    if not measured.time_us:
        return OperatorFigures(measured, roofline_reason="it was not timed")
    if not backend_named(backend).on_processor:
        return OperatorFigures(
            measured, roofline_reason=f"the peaks are the processor's, and {backend} runs on another device"
        )
    threads = device.limits.usable_cores
    found = minimum(device, case.precision, threads, measured.operations, measured.moved_bytes)
    if isinstance(found, str):
        return OperatorFigures(measured, roofline_reason=found)
    return OperatorFigures(measured, found.time_s * 1e6 / measured.time_us)


def _counts(cases: Sequence[CaseRow], backend: str) -> dict[Status, int]:
    found = Counter(case.results[backend].measured.status for case in cases)
    return {status: found[status] for status in STATUSES}
