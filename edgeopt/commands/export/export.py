"""`edgeopt export`: a checked bundle in another format, checked again and published in one step."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.bundle.deployment import check_outside_bundles
from edgeopt.bundle.durable import publish_folder
from edgeopt.bundle.manifest import FileEntry, file_digest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.write import draft
from edgeopt.commands.export.base import BUNDLE, ExportedFiles, ExportJob, Format
from edgeopt.commands.export.cpp import FORMAT as CPP
from edgeopt.commands.export.docker import FORMAT as DOCKER
from edgeopt.commands.export.onnx import FORMAT as ONNX
from edgeopt.commands.export.openvino_ir import FORMAT as OPENVINO_IR
from edgeopt.commands.export.runner import FORMAT as RUNNER
from edgeopt.commands.export.settings import options_text
from edgeopt.commands.export.triton import FORMAT as TRITON
from edgeopt.decoding import thread_safe
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress
from edgeopt.graph.accuracy import agreement
from edgeopt.graph.unjudged import unjudged_outputs
from edgeopt.nearest import nearest
from edgeopt.platform.command_line import quote_word
from edgeopt.version import __version__
from edgeopt.views.blocks import some

FORMATS: tuple[Format, ...] = (ONNX, OPENVINO_IR, RUNNER, DOCKER, TRITON, CPP)


def readme(job: ExportJob, format_: Format, made: ExportedFiles) -> str:
    profile = job.bundle.deployment
    source = f"{profile.source.name} (sha256 {profile.source.sha256[:16]}…)"
    parts = [
        f"# {job.name}\n\n{format_.title}. Exported by edgeopt {__version__} from a bundle of {source}.",
        "## Evidence\n\n" + _evidence(job),
        "## Using it\n\n```\n" + "\n".join(made.use) + "\n```",
        "## What to know\n\n" + "\n".join(f"- {note}" for note in [*made.notes, _checked(made)]),
        "## Inputs and outputs\n\n" + _ports(job),
    ]
    return "\n\n".join(parts) + "\n"


def _evidence(job: ExportJob) -> str:
    profile = job.bundle.deployment
    how = f"With {job.backend} and {options_text(job)}."
    if profile.predicted is not None:
        return f"None yet: it was planned for {profile.predicted.device}, and no time was measured. {how}"
    evidence = profile.evidence
    if evidence is None:
        return f"{profile.summary} {how}"
    if not evidence.rounds:
        return f"{profile.summary} {how} The bundle runs the source model unchanged."
    goal = "" if profile.budget is None else profile.budget.goal
    asked = f"at least {evidence.floor_db:g} dB" if evidence.floor_db else goal or "no floor"
    speed = units.speedup_text(evidence.speedup, evidence.speedup_low, evidence.speedup_high)
    return (
        f"{profile.summary} {how} Measured against {evidence.baseline}: {speed}, "
        f"{agreement(evidence.accuracy_db)} on {evidence.samples} samples, "
        f"asked for: {asked}. That was measured of the bundle on its own "
        "device; the speed of this form was not measured."
    )


def _checked(made: ExportedFiles) -> str:
    if made.answer is None:
        return made.not_checked
    return (
        f"Accuracy on the golden samples when it was exported: {agreement(made.answer.accuracy_db, against=True)} "
        f"(at least {made.answer.floor_db:.1f} dB is needed). {made.not_checked}"
    ).strip()


def _ports(job: ExportJob) -> str:
    profile = job.bundle.deployment
    rows = ["| | name | type | shape |", "|---|---|---|---|"]
    for kind, listed in (("input", profile.inputs), ("output", profile.outputs)):
        rows += [f"| {kind} | `{p.name}` | {p.dtype} | {', '.join(map(str, p.shape))} |" for p in listed]
    return "\n".join(rows)


MARK = "edgeopt-export.json"
"""Name of the file that describes an exported folder; only a folder with this file is ever replaced."""
README = "README.md"
_MAX_NAMED = 3
_PROCESSING = (
    "The export does not include the pre- and postprocessing; it has the inputs and outputs of "
    "the model. The files are in the bundle's folder processing/, the steps in deployment.toml."
)

_BUCKETS = (
    "The export does not include the bundle's programs for several sizes (buckets): outputs are "
    "the same, but sizes other than the usual one are slower. edgeopt.load of the bundle uses "
    "them."
)


class Export(msgspec.Struct, frozen=True):
    """`edgeopt-export.json`: where the files came from, and their digests."""

    format: str
    bundle: str
    source_sha256: str
    backend: str
    edgeopt: str
    notes: list[str]
    files: Mapping[str, FileEntry]
    schema: int = 1


class Exported(msgspec.Struct, frozen=True):
    bundle: str
    format: str
    out: str
    files: int
    size_bytes: int
    accuracy_db: float | None
    """Accuracy of the exported model on the golden samples, in dB; None if it could not run here."""
    floor_db: float | None
    samples: int
    not_checked: str
    notes: tuple[str, ...]
    use: tuple[str, ...]


class ExportFormat(msgspec.Struct, frozen=True):
    name: str
    title: str


class ExportFormats(msgspec.Struct, frozen=True):
    formats: tuple[ExportFormat, ...]


def list_formats() -> ExportFormats:
    return ExportFormats(tuple(ExportFormat(each.name, each.title) for each in FORMATS))


def format_named(name: str) -> Format:
    for each in FORMATS:
        if each.name == name:
            return each
    raise UsageError(f"There is no export format '{name}'.", nearest(name, tuple(each.name for each in FORMATS)))


def export(path: Path, format_name: str, out: Path, emit: Emit, max_batch_size: int | None = None) -> Exported:
    """Raises ConstraintError if the format cannot hold the bundle, VerificationError if the outputs differ."""
    chosen = format_named(format_name)
    if max_batch_size is not None and not chosen.batches:
        served = ", ".join(each.name for each in FORMATS if each.batches)
        raise UsageError(f"--max-batch-size does not apply to {format_name}.", f"It applies to: {served}.")
    target = _plain(out)
    _check_target(target, path)
    emit(Progress("checking digests", path.name))
    job = ExportJob(read_bundle(path), max_batch_size)
    with draft(target) as folder:
        emit(Progress("writing", chosen.name))
        made = chosen.write(job, folder)
        made.notes += unjudged_outputs(job.bundle.golden("reference"))
        if job.bundle.deployment.run.options.get("buckets"):
            made.notes.append(_BUCKETS)
        if job.bundle.deployment.processing is not None:
            made.notes.append(_PROCESSING)
        (folder / README).write_text(readme(job, chosen, made), encoding="utf-8")
        files = _files(folder)
        (folder / MARK).write_bytes(_mark(job, chosen, made, files))
        _check_target(target, path)  # once more: something else may have come there meanwhile
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        publish_folder(folder, target)
    answer = made.answer
    return Exported(
        bundle=str(path),
        format=chosen.name,
        out=str(out),
        files=len(files) + 1,
        size_bytes=sum(entry.size_bytes for entry in files.values()),
        accuracy_db=answer.accuracy_db if answer else None,
        floor_db=answer.floor_db if answer else None,
        samples=len(job.bundle.golden("inputs")),
        not_checked=made.not_checked,
        notes=tuple(made.notes),
        use=tuple(line.replace(BUNDLE, quote_word(os.path.relpath(path, out))) for line in made.use),
    )


def _files(folder: Path) -> dict[str, FileEntry]:
    return {
        file.relative_to(folder).as_posix(): FileEntry(file_digest(file), file.stat().st_size)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def _mark(job: ExportJob, format_: Format, made: ExportedFiles, files: dict[str, FileEntry]) -> bytes:
    profile = job.bundle.deployment
    mark = Export(format_.name, job.name, profile.source.sha256, job.backend, __version__, made.notes, files)
    return msgspec.json.format(msgspec.json.encode(mark), indent=1)


def _plain(path: Path) -> Path:
    """Returns the path, absolute and without `..`; a link as the last part is not followed."""
    return path.resolve() if path.name in {"", ".."} else path.parent.resolve() / path.name


def _check_target(out: Path, bundle: Path) -> None:
    """Raises UsageError unless the target is a new or empty folder, or an earlier export."""
    here = _plain(bundle)
    if here == out or here.is_relative_to(out) or out.is_relative_to(here):
        raise UsageError(f"'{out}' and the bundle contain each other.", "Choose another folder for -o.")
    if out == Path.cwd() or os.path.ismount(out):
        raise UsageError(
            f"'{out}' is a folder that cannot be replaced.", "Choose a new name inside that folder for -o."
        )
    earlier = out.is_dir() and ((out / MARK).is_file() or not any(out.iterdir()))
    if out.is_symlink() or (out.exists() and not earlier):
        raise UsageError(
            f"'{out}' already exists and is not an earlier export, so it is not replaced.",
            "Choose another name for -o.",
        )
    if own := _own_files(out):
        raise UsageError(
            f"'{out}' has files that were added or changed since the export and would be lost: "
            f"{some(own, _MAX_NAMED)}.",
            "Move them to another place, or choose another name for -o.",
        )
    if not out.parent.is_dir():
        raise UsageError(
            f"The folder '{out.parent}' does not exist.", "Create it first, or choose another place for -o."
        )
    if not os.access(out.parent, os.W_OK):
        raise UsageError(f"The folder '{out.parent}' cannot be written to.", "Choose another place for -o.")
    check_outside_bundles(out)


def _own_files(out: Path) -> list[str]:
    """Returns the user's files in an earlier export: added ones, such as data and builds, and changed ones."""
    mark = out / MARK
    if not mark.is_file():
        return []
    try:
        written = msgspec.json.decode(mark.read_bytes(), type=thread_safe(Export)).files
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [MARK]
    files = {file.relative_to(out).as_posix(): file for file in sorted(out.rglob("*")) if file.is_file()}
    return [name for name, file in files.items() if name != MARK and not _is_written(file, written.get(name))]


def _is_written(file: Path, entry: FileEntry | None) -> bool:
    return entry == FileEntry(file_digest(file), file.stat().st_size) if entry is not None else False
