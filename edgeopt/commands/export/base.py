"""Interface of export formats, and their shared parts: the model and golden samples, copied and checked."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available, Options, TensorInfo
from edgeopt.bundle.deployment import UnderLoad
from edgeopt.bundle.golden import GoldenAnswer, answer_golden
from edgeopt.bundle.read import Bundle
from edgeopt.errors import ConstraintError, VerificationError

BUNDLE = "BUNDLE"
"""Stands for the exported bundle in `ExportedFiles.use`: README.md, which goes elsewhere, names no path."""


@dataclass(frozen=True, slots=True)
class ExportJob:
    bundle: Bundle
    max_batch_size: int | None = None
    """Maximum number of samples in one run of a server; None: chosen by the format."""

    @property
    def name(self) -> str:
        return self.bundle.deployment.name

    @property
    def file_name(self) -> str:
        """The name as used in paths and files: a bundle may come from anybody."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", self.name).strip("._-")[:64] or "model"

    @property
    def backend(self) -> str:
        return self.bundle.deployment.run.backend

    @property
    def load(self) -> UnderLoad | None:
        """Callers and batch that a search for throughput found; None after other searches."""
        evidence = self.bundle.deployment.evidence
        return None if evidence is None else evidence.load


@dataclass(slots=True)
class ExportedFiles:
    """Result of writing a bundle in a format; the files are in the folder that was given."""

    use: list[str] = field(default_factory=list)
    """Command lines, or lines of code, that use it."""
    notes: list[str] = field(default_factory=list)
    """Sentences on what the format does not carry, and other limitations."""
    answer: GoldenAnswer | None = None
    """Answer of the exported model to the golden samples."""
    not_checked: str = ""
    """Reason why there is no answer, as a sentence."""


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    title: str
    """Title of the format, one line."""
    write: Callable[[ExportJob, Path], ExportedFiles]
    """Writes into an empty folder; raises ConstraintError if the format cannot hold this bundle."""
    batches: bool = False
    """Whether the format uses `ExportJob.max_batch_size`."""


def refuse(job: ExportJob, format_name: str, reason: str, hint: str) -> ConstraintError:
    return ConstraintError(f"The bundle '{job.name}' cannot be exported as {format_name}: {reason}.", hint)


HINT = "Nothing was written. `edgeopt verify` checks whether the bundle itself is valid on this device."


def missing_here(backend: str) -> str:
    """Returns why a backend cannot run here, as a sentence; empty if it can."""
    found = backend_named(backend).available()
    if isinstance(found, Available):
        return ""
    return f"Not run: the backend {backend} is not available ({found.reason})."


def check_model(job: ExportJob, made: ExportedFiles, model: Path, backend: str, options: Options) -> None:
    """Runs an exported model with these options; raises VerificationError for one that answers otherwise."""
    made.not_checked = missing_here(backend)
    if made.not_checked:
        return
    session = backend_named(backend).load(model, options)
    try:
        made.answer = answer_golden(job.bundle, session)
    finally:
        session.close()
    wrong = made.answer.sentence("The exported model")
    if wrong:
        raise VerificationError(wrong, HINT)


def ports(job: ExportJob, model: Path, backend: str) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """Returns the model's inputs and outputs in its own order, or the profile's if the runtime is not here."""
    if missing_here(backend):
        profile = job.bundle.deployment
        return tuple(
            tuple(
                TensorInfo(each.name, each.dtype, tuple(None if dim == "?" else dim for dim in each.shape))
                for each in listed
            )
            for listed in (profile.inputs, profile.outputs)
        )  # type: ignore[return-value]
    session = backend_named(backend).load(model, {})
    try:
        return session.inputs, session.outputs
    finally:
        session.close()


def literal(text: str, special: bytes) -> str:
    """Quotes text as C does; bytes beyond ASCII become octal escapes, which end after three digits."""
    escaped = (f"\\{chr(b)}" if b in special else chr(b) if 32 <= b < 127 else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(escaped)}"'


GOLDEN = "golden"


def copy_model(job: ExportJob, folder: Path, name: str = "") -> Path:
    """Copies the model file with the files that belong to it (external data is found by its name there)."""
    source = job.bundle.model
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / (name or source.name)
    shutil.copyfile(source, place)
    for beside in sorted(source.parent.rglob("*")):
        if beside.is_file() and beside != source and _belongs(beside, source):
            target = folder / beside.relative_to(source.parent)
            if beside.suffix == ".bin" and beside.stem == source.stem and source.suffix == ".xml":
                target = place.with_suffix(".bin")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(beside, target)
    return place


def copy_golden(job: ExportJob, folder: Path) -> None:
    """Copies the golden inputs and the outputs of the source model."""
    source = job.bundle.folder / GOLDEN
    for name in ("inputs", "reference"):
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / GOLDEN / name)
        else:
            (folder / GOLDEN).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / f"{name}.npz", folder / GOLDEN / f"{name}.npz")


def _belongs(file: Path, model: Path) -> bool:
    """Weights beside the model; another model is another variant's."""
    if file.suffix in {".onnx", ".xml"}:
        return False
    return not (file.suffix == ".bin" and file.with_suffix(".xml").exists()) or file.stem == model.stem
