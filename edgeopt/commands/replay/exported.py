"""A deployment profile as one file to send, keep under version control or look at, and what comes of one here."""

import os
import shlex
import tempfile
from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.backends import backend_named
from edgeopt.backends.base import Available
from edgeopt.bundle.deployment import LARGEST_BYTES, Deployment, Record, read_deployment, to_toml
from edgeopt.bundle.deployment import said_of as in_words
from edgeopt.bundle.durable import publish_file
from edgeopt.bundle.runtime.check import Changed, changes_since
from edgeopt.bundle.write import free_place
from edgeopt.commands.replay.embedding import packed
from edgeopt.commands.replay.processing import embedded
from edgeopt.commands.replay.profile import Profile, model_place, read_profile
from edgeopt.commands.replay.steps import check_steps, said_of
from edgeopt.errors import BundleError, EdgeoptError, UsageError, pip_install, writing_to
from edgeopt.hw.probe import probe

SUFFIX = ".toml"


class Exported(msgspec.Struct, frozen=True):
    profile: str
    bundle: str
    size_bytes: int
    steps: tuple[str, ...]
    summary: str


class Imported(msgspec.Struct, frozen=True):
    """What a profile would give on this device; nothing is written for that."""

    profile: str
    name: str
    source: str
    """The file name that the source model had."""
    source_digest: str
    source_checked: bool
    """Whether a model was given, and is that one."""
    target: str
    backend: str
    unavailable: str
    """Why the backend cannot be used here, as a sentence; empty where it can."""
    steps: tuple[str, ...]
    processing: tuple[str, ...]
    """What is done before and after the model, a line each."""
    summary: str
    changes: tuple[Changed, ...]
    """What is another device here than where it was proved."""
    command: str
    """Makes the bundle."""


def export(bundle: Path, out: Path) -> Exported:
    """Writes the profile with what calibration found inside, whole or not at all."""
    _check_out(out)
    profile = read_profile(bundle)
    deployment = profile.deployment
    if profile.record is not None and deployment.quantization is not None:
        record = Record(deployment.quantization.sha256, embedded=packed(profile.record))
        deployment = msgspec.structs.replace(deployment, quantization=record)
    if deployment.processing is not None:
        inside = embedded(deployment.processing, profile.processing)
        deployment = msgspec.structs.replace(deployment, processing=inside)
    content = to_toml(deployment).encode()
    if len(content) > LARGEST_BYTES:
        raise BundleError(
            f"What '{bundle.name}' holds of calibration and processing is too large for a profile in one file "
            f"({units.size(len(content))}; at most {units.size(LARGEST_BYTES)} are read).",
            "Replay from the bundle itself.",
        )
    # Under a hidden name first: what is there stays until the new one is whole.
    with writing_to(out):
        descriptor, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.absolute().parent)
    try:
        with writing_to(out):
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(name).chmod(0o644)
            publish_file(Path(name), out.absolute())
    finally:
        Path(name).unlink(missing_ok=True)
    steps = tuple(said_of(step) for step in deployment.steps)
    return Exported(str(out), str(bundle), len(content), steps, deployment.summary)


def look_at(path: Path, model: Path | None = None) -> Imported:
    """Checks a profile as a replay would, short of doing it; raises what is wrong with it or with the model."""
    from edgeopt.commands.replay.replay import source_of

    profile = read_profile(path)
    deployment = profile.deployment
    model_place(deployment)
    check_steps(profile)
    if model is not None:
        source_of(model, deployment)
    given = model if model is not None else Path(deployment.source.name)
    return Imported(
        profile=str(path),
        name=deployment.name,
        source=deployment.source.name,
        source_digest=deployment.source.sha256,
        source_checked=model is not None,
        target=deployment.target,
        backend=deployment.run.backend,
        unavailable=_unavailable(profile),
        steps=tuple(said_of(step) for step in deployment.steps),
        processing=_processing(deployment),
        summary=deployment.summary,
        changes=changes_since(deployment, probe()),
        command=shlex.join(
            ["edgeopt", "replay", str(path), str(given), "-o", str(free_place(deployment.name, path)), "--measure"]
        ),
    )


def _processing(deployment: Deployment) -> tuple[str, ...]:
    told = deployment.processing
    parts = [] if told is None else [("before the model", told.pre), ("after it", told.post)]
    return tuple(f"{where}: {in_words(part)}" for where, part in parts if part is not None)


def _unavailable(profile: Profile) -> str:
    name = profile.deployment.run.backend
    try:
        found = backend_named(name).available()
    except EdgeoptError as error:
        return error.message
    if isinstance(found, Available):
        return ""
    extra = f" Install it with: {pip_install(found.extra)}" if found.extra else ""
    return f"The backend {name} is not available: {found.reason}.{extra}"


def _check_out(out: Path) -> None:
    if out.suffix != SUFFIX:
        raise UsageError(f"'{out}' does not end in {SUFFIX}, which a profile is.", f"Try -o {out.stem}{SUFFIX}.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"The folder '{out.parent}' does not exist.", "Create it first, or choose another -o.")
    if out.is_dir() or out.is_symlink() or (out.exists() and not _is_profile(out)):
        raise UsageError(
            f"'{out}' already exists and is not a deployment profile, so it is not replaced.", "Choose another -o."
        )


def _is_profile(path: Path) -> bool:
    try:
        read_deployment(path)
    except BundleError:
        return False
    return True
