"""A run of a lab: what is kept, what is searched for, what is measured against earlier results."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import check_outside_bundles
from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.read import read_bundle
from edgeopt.decoding import thread_safe
from edgeopt.errors import BundleError, EdgeoptError, UsageError
from edgeopt.events import Emit, Progress, Update
from edgeopt.hw.device import Device, fingerprint
from edgeopt.lab.cell import PROGRAM, STOPPED, CellRun, CellTask, CommandEnding
from edgeopt.lab.lab_file import LabDevice, LabFile, ModelSearch, lanes, model_searches, read_lab_file
from edgeopt.lab.records import (
    BUNDLES,
    FILE,
    CellKey,
    LabCell,
    LabRace,
    LabResults,
    finite,
    read_results,
    results_file,
    write_results,
)
from edgeopt.lab.request import LabRunRequest
from edgeopt.lab.schedule import run_cells
from edgeopt.measure.stats import with_open_ends
from edgeopt.pipeline.outcome import Outcome
from edgeopt.platform.files import try_lock
from edgeopt.version import __version__

LOCK = ".lock"
"""Locked file in the folder of the results, while a run writes there."""
UPDATE = "lab-cell"
"""Kind of the update that each change of a cell emits."""


def run_lab(
    request: LabRunRequest,
    emit: Emit,
    program: tuple[str, ...] = PROGRAM,
    publish: Callable[[LabResults, Path], None] = write_results,
) -> LabResults:
    """Runs the cells that are not finished yet; results.json has each as soon as it ends.

    `program`: what Python runs for the commands of cells. `publish` writes the results into their folder, each
    time that a cell ends.
    """
    lab = read_lab_file(request.lab)
    models = model_searches(lab, request.lab, request.models)
    if request.against is not None and results_file(request.against).resolve().parent == request.out.resolve():
        raise UsageError(
            "--against names the results that this run replaces.", "Write to another folder: -o RESULTS"
        )
    last = None if request.against is None else read_results(request.against)
    return _LabRun(request, lab, models, last, emit, program, publish).run()


class _LabRun:
    """State of a run: its cells by model and device."""

    def __init__(
        self,
        request: LabRunRequest,
        lab: LabFile,
        models: Sequence[ModelSearch],
        last: LabResults | None,
        emit: Emit,
        program: tuple[str, ...],
        publish: Callable[[LabResults, Path], None],
    ) -> None:
        self._request, self._lab, self._emit, self._program = request, lab, emit, program
        self._publish = publish
        self._folder = request.out.absolute()
        self._models = {each.name: each for each in models}
        self._devices = {each.name: each for each in lab.device}
        self._last = {} if last is None else {(each.model, each.device): each for each in last.cells}
        self._cells: dict[str, LabCell] = {}
        """Cells as results.json has them, by name; a cell that runs is waiting here until it ends."""
        self._began = False
        for model in models:
            for cell in self._new_cells(model):
                self._cells[cell.name] = cell

    def run(self) -> LabResults:
        check_outside_bundles(self._folder / FILE)
        with _owning(self._folder, [self._folder / BUNDLES / model for model in self._models]):
            self._check_folder()
            return self._run()

    def _check_folder(self) -> None:
        """Raises UsageError if the folder has finished cells, all of them of other models or devices."""
        if not results_file(self._folder).is_file():
            return
        earlier = read_results(self._folder)
        done = [each.name for each in earlier.cells if (each.earlier or each).status == "done"]
        if done and not {*done} & {*self._cells}:
            raise UsageError(
                f"'{self._request.out}' has the results of other models and devices ({earlier.lab}).",
                "Write to another folder: -o RESULTS; or remove that one.",
            )

    def _run(self) -> LabResults:
        self._keep()
        for cell in self._cells.values():
            self._show(cell)
        tasks = [
            task
            for cell in self._cells.values()
            if cell.status != "failed" and (task := self._task(cell)).commands
        ]
        if tasks:
            self._emit(Progress("running the cells", done=0, total=len(tasks)))
            run_cells(tasks, lanes(self._lab.device), self._request.scheduler, self._report, self._finish)
        self._write()
        return self._results()

    def _new_cells(self, model: ModelSearch) -> list[LabCell]:
        """Returns the cells of a model: waiting, or failed if its files cannot be read."""
        digests, error = ("", ""), None
        try:
            digests = model.digests()
        except EdgeoptError as found:
            error = found
        cells = [
            LabCell(model.name, each, "waiting", self._key(model.name, each, digests)) for each in self._devices
        ]
        if error is None:
            return cells
        failure = {"status": "failed", "reason": error.message, "hint": error.hint}
        return [msgspec.structs.replace(each, **failure) for each in cells]

    def _key(self, model: str, device: str, digests: tuple[str, str]) -> CellKey:
        there = self._devices[device]
        return CellKey(
            *digests,
            self._models[model].option_words,
            (there.on, ",".join(map(str, there.cores)), there.hold_back or ""),
            __version__,
        )

    def _keep(self) -> None:
        """Keeps the finished cells of an earlier run whose bundles and devices are as they were."""
        if self._request.fresh or not results_file(self._folder).is_file():
            return
        earlier = {each.name: each.earlier or each for each in read_results(self._folder).cells}
        found: dict[str, LabCell] = {}
        for name, cell in self._cells.items():
            if name not in earlier or earlier[name].status != "done":
                continue
            if cell.status == "failed":
                self._cells[name] = msgspec.structs.replace(cell, earlier=earlier[name])
            elif self._is_same(earlier[name], cell):
                found[name] = earlier[name]
        devices = {cell.device for cell in found.values()}
        prints: dict[str, dict[str, str]] = {}
        self._emit(Progress("looking at the devices", ", ".join(sorted(devices)), 0, len(devices)))
        probes = [self._device_task(name, name, (("probe", "--json"),)) for name in sorted(devices)]

        def note(task: CellTask, run: CellRun) -> None:
            if run.endings[-1].data is not None:
                device = msgspec.convert(run.endings[-1].data, thread_safe(Device), str_keys=True)
                prints[task.device] = fingerprint(device)

        run_cells(probes, lanes(self._lab.device), self._request.scheduler, lambda *_: None, note)
        for name, cell in found.items():
            if prints.get(cell.device) == cell.fingerprint:
                self._cells[name] = msgspec.structs.replace(cell, kept=True, phase="")
            elif cell.device not in prints:  # it may answer again in a later run
                self._cells[name] = msgspec.structs.replace(self._cells[name], earlier=cell)

    def _is_same(self, earlier: LabCell, cell: LabCell) -> bool:
        if earlier.key != cell.key:
            return False
        try:
            read_bundle(self._folder / earlier.bundle)
        except BundleError:
            return False
        return True

    def _task(self, cell: LabCell) -> CellTask:
        """Returns the commands that the cell still needs; none if it is complete."""
        bundle = f"{BUNDLES}/{cell.model}/{cell.device}.edgeopt"
        commands: list[tuple[str, ...]] = []
        if cell.status != "done":
            search = self._models[cell.model].arguments(self._folder / bundle)
            commands.append(("optimize", *search, *(["--fresh"] if self._request.fresh else []), "--json"))
        old = self._old_bundle(cell)
        if old is not None and (cell.status != "done" or _is_due(cell.race, old)):
            limit = ("--max-slowdown", self._lab.max_slowdown, "--json")
            commands.append(("bench", str(self._folder / bundle), "--against", str(old), *limit))
        return self._device_task(cell.name, cell.device, tuple(commands))

    def _device_task(self, key: str, name: str, commands: tuple[tuple[str, ...], ...]) -> CellTask:
        device: LabDevice = self._devices[name]
        there = ("--on", device.on) if device.on else ()
        complete = tuple((*each, *there) for each in commands)
        return CellTask(key, name, complete, device.cores, device.environment, self._program)

    def _old_bundle(self, cell: LabCell) -> Path | None:
        last = self._last.get((cell.model, cell.device))
        if last is None or not last.bundle or self._request.against is None:
            return None
        return results_file(self._request.against.absolute()).parent / last.bundle

    def _report(self, task: CellTask, progress: Progress) -> None:
        phase = f"{progress.phase}: {progress.message}" if progress.message else progress.phase
        if not self._began:  # not before: a run that cannot begin keeps the earlier results
            self._began = True
            self._write()
        self._announce(msgspec.structs.replace(self._cells[task.key], status="running", phase=phase))

    def _finish(self, task: CellTask, run: CellRun) -> None:
        cell = self._cells[task.key]
        for command, ending in zip(task.commands, run.endings, strict=False):
            if ending.code == STOPPED:
                break
            cell = self._searched(cell, ending) if command[0] == "optimize" else self._raced(cell, ending)
        self._show(cell)
        self._write()

    def _searched(self, cell: LabCell, ending: CommandEnding) -> LabCell:
        times = {"begin_s": ending.begin_s, "end_s": ending.end_s, "phase": ""}
        if ending.data is None:
            return msgspec.structs.replace(cell, status="failed", reason=ending.message, hint=ending.hint, **times)
        outcome = msgspec.convert(with_open_ends(ending.data), thread_safe(Outcome), str_keys=True)
        proof = outcome.proof
        return msgspec.structs.replace(
            cell,
            status="done",
            bundle=f"{BUNDLES}/{cell.model}/{cell.device}.edgeopt",
            fingerprint={} if outcome.device is None else fingerprint(outcome.device),
            verdict=outcome.verdict,
            summary=outcome.summary,
            winner=outcome.winner.name,
            speedup=proof.speedup.stated,
            latency_ms=finite(proof.latency_ms),
            baseline_ms=finite(proof.baseline_ms),
            accuracy_db=finite(proof.accuracy_db),
            peak_bytes=None if proof.memory is None else proof.memory.peak_bytes,
            earlier=None,
            **times,
        )

    def _raced(self, cell: LabCell, ending: CommandEnding) -> LabCell:
        old = self._old_bundle(cell)
        digest = "" if old is None else _digest_of_bundle(old)
        judged = with_open_ends(ending.data or {}).get("judgement") or {}
        check = next(iter(judged.get("checks", ())), None)
        race = (
            LabRace(digest, "not judged", ending.message or "The bundles could not be compared.")
            if check is None
            else msgspec.convert({**check, "against_digest": digest}, thread_safe(LabRace))
        )
        race = msgspec.structs.replace(race, begin_s=ending.begin_s, end_s=ending.end_s)
        return msgspec.structs.replace(cell, race=race, phase="")

    def _show(self, cell: LabCell) -> None:
        self._cells[cell.name] = cell
        self._announce(cell)

    def _announce(self, cell: LabCell) -> None:
        self._emit(Update(UPDATE, msgspec.to_builtins(cell)))

    def _results(self) -> LabResults:
        against = self._request.against
        return LabResults(
            self._request.lab.name,
            tuple(self._models),
            tuple(self._devices),
            tuple(self._cells.values()),
            "" if against is None else self._lab.max_slowdown,
            "" if against is None else str(against),
        )

    def _write(self) -> None:
        self._publish(self._results(), self._folder)


@contextmanager
def _owning(folder: Path, inside: Sequence[Path]) -> Iterator[None]:
    """Creates the folder of the results with folders inside it; raises UsageError while another run has it."""
    try:
        for each in (folder, *inside):
            each.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("ab")
    except OSError as error:
        raise UsageError(
            f"The results cannot be written to '{folder}': {error.strerror}.",
            "Write to another folder: -o RESULTS",
        ) from None
    with lock:
        if not try_lock(lock.fileno()):
            raise UsageError(
                f"Another run of a lab writes to '{folder}'.",
                "Wait for its end, or write to another folder: -o RESULTS",
            )
        yield


def _is_due(race: LabRace | None, old: Path) -> bool:
    """Whether a finished cell is yet to be measured against this bundle."""
    return race is None or race.state == "not judged" or race.against_digest != _digest_of_bundle(old)


def _digest_of_bundle(path: Path) -> str:
    """Returns the digest of a bundle; empty if it is missing or damaged, which the comparison reports."""
    try:
        return release_id(path)
    except OSError:
        return ""
