"""Models of other frameworks as sides: each runs in its own environment, and its outputs are compared."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgeopt.backends.base import Array
from edgeopt.commands.bench.naming import COMPILE, NamedSide
from edgeopt.data.samples import from_feeds, open_samples, write_archive
from edgeopt.decoding import thread_safe
from edgeopt.errors import TrialError, UsageError
from edgeopt.events import Emit, Log, Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.hw.probe import probe
from edgeopt.hw.topology import cores_for
from edgeopt.importing.importer import child_command, run_child, saved_runs
from edgeopt.importing.request import SourceOptions
from edgeopt.importing.sources import recognize
from edgeopt.measure.contender import Side, enter_side, save_outputs
from edgeopt.measure.report import Agreement, OriginalRun
from edgeopt.measure.trial import read_outputs, rotated
from edgeopt.platform.command_line import join_words
from edgeopt.workers.host import LocalHost

_COMPILED = ("torch", "torch-program", "huggingface")
_OUTPUTS_S = 600.0
Runs = Sequence[dict[str, Array]]


class _Answered(msgspec.Struct, frozen=True):
    """Last line of the child's output."""

    framework: str
    mode: str
    outputs: tuple[str, ...]
    notes: tuple[str, ...] = ()


class _Known(NamedTuple):
    """Samples, and the outputs of each other side for them."""

    archive: Path
    outputs: dict[str, Runs]


def check_options(named: Sequence[NamedSide], options: SourceOptions) -> None:
    """Raises UsageError for options of sources without one, and what is wrong with a source by itself."""
    sources = [each for each in named if each.kind == "source"]
    for each in sources:
        recognize(each.what, options.trust)
    if sources:
        return
    for flag, value in (("--python", options.python), ("--trust", options.trust), ("--task", options.task)):
        if value:
            raise UsageError(
                f"{flag} is for models of other frameworks, and no side is one.",
                f"Leave {flag} out, or name one: --against net.py:Net",
            )


def open_originals(
    named: Sequence[NamedSide], sides: Sequence[Side], options: SourceOptions, threads: str | None, folder: Path,
    emit: Emit,
) -> tuple[list[Side], tuple[OriginalRun, ...]]:  # fmt: skip
    """Returns the sides with the commands of the originals among them, and how each of these runs."""
    if not any(each.kind == "source" for each in named):
        return list(sides), ()
    samples = open_samples(Path(sides[0].load.samples_path))
    archive, count = folder / "samples-of-originals.npz", rotated(samples)
    write_archive(archive, from_feeds([samples.feeds(k) for k in range(count)]))
    models = [side for side, each in zip(sides, named, strict=True) if each.kind != "source"]
    outputs = {side.name: found for side in models if (found := _outputs(side, count, folder, emit))}
    known = _Known(archive, outputs)
    made, runs = [], []
    for number, (side, each) in enumerate(zip(sides, named, strict=True)):
        if each.kind != "source":
            made.append(side)
            continue
        place = folder / f"original-{number}"
        place.mkdir()
        used = _threads(each, models, threads)
        command, run = _open(each, side.name, options, used, known, place, emit)
        cores = next((model.load.cores for model in models), ())
        load = msgspec.structs.replace(side.load, model_path=command, cores=cores)
        made.append(msgspec.structs.replace(side, load=load))
        runs.append(run)
    return made, tuple(runs)


def _open(
    named: NamedSide, name: str, options: SourceOptions, threads: int, known: _Known, folder: Path, emit: Emit
) -> tuple[str, OriginalRun]:
    """Runs it once in its environment: what is missing or wrong there is said before anything is measured."""
    source = recognize(named.what, options.trust, options.task)
    compiles = bool(named.options.get(COMPILE))
    if compiles and source.source.kind not in _COMPILED:
        raise UsageError(f"A {source.source.title} has no @{COMPILE}.", "Leave it out.")
    if options.task and source.source.kind != "huggingface":
        raise UsageError(f"A {source.source.title} has no --task.", "Leave it out.")
    ranks = {n: getattr(a, "ndim", 0) for runs in known.outputs.values() for n, a in runs[0].items()}
    job = {"threads": threads, "compile": compiles}
    answer_job = {**job, "data": str(known.archive), "outputs": list(ranks.items())}
    emit(Progress("reading the model", name))
    answering = child_command(source, options, folder, work="answer", job=answer_job)
    answered = msgspec.convert(run_child(answering, source, folder, emit), thread_safe(_Answered))
    for note in answered.notes:
        emit(Log("warning", note))
    answers = saved_runs(folder / "outputs.npz", answered.outputs)
    agreements = tuple(_agreement(other, answers, runs) for other, runs in known.outputs.items())
    run = OriginalRun(name, answered.framework, answered.mode, threads, agreements)
    return join_words(child_command(source, options, folder, work="serve", job=job)), run


def _threads(named: NamedSide, models: Sequence[Side], threads: str | None) -> int:
    """Returns the side's thread count, else that of the first model with one, else `threads`, else all cores."""
    of_models = [side.load.options.get("threads") for side in models]
    chosen = next((each for each in (named.options.get("threads"), *of_models, threads) if each), "physical")
    return chosen if isinstance(chosen, int) else _count(str(chosen))


def _count(word: str) -> int:
    return int(word) if word.isdecimal() else cores_for(word, probe()).threads


def _outputs(side: Side, count: int, folder: Path, emit: Emit) -> Runs:
    """Returns the side's outputs, empty if it fails: the measurement reports why if the side cannot run at all."""
    path = folder / "outputs-of-side.npz"
    emit(Progress("comparing outputs", side.name))
    try:
        contender = enter_side(LocalHost(folder), side)
        with closing(contender):
            save_outputs(contender, 0, count, str(path), _OUTPUTS_S)
    except TrialError:
        return []
    return read_outputs(path)


def _agreement(other: str, reference: Runs, got: Runs) -> Agreement:
    """Compares the outputs with the same names, or the outputs by position if no name is the same."""
    names = [name for name in reference[0] if name in got[0]]
    if not names and len(reference[0]) == len(got[0]):
        got = [dict(zip(reference[0], run.values(), strict=True)) for run in got]
        names = list(reference[0])
    if not names:
        return Agreement(other, None, f"has other outputs: {', '.join(got[0])}")
    found = compare_outputs(*([{n: run[n] for n in names} for run in runs] for runs in (reference, got)))
    return Agreement(other, None if found.problem else found.snr_db, found.problem or "", len(got))
