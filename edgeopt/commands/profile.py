"""`edgeopt profile export`, `import` and `diff`: a profile as one file, and what differs between two."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.backends import backend_named
from edgeopt.backends.base import Available
from edgeopt.bundle.deployment import (
    LARGEST_BYTES,
    CalibrationRecord,
    Deployment,
    Step,
    Tensor,
    check_outside_bundles,
    describe_part,
    read_deployment,
    to_toml,
)
from edgeopt.bundle.durable import publish_file
from edgeopt.bundle.profile import Profile, embedded, model_place, packed, read_profile
from edgeopt.bundle.runtime.check import Changed, changes_since
from edgeopt.bundle.write import free_place
from edgeopt.errors import BundleError, EdgeoptError, UsageError, pip_install, writing_to
from edgeopt.hw.probe import probe
from edgeopt.pipeline.replay_steps import check_steps, describe_step
from edgeopt.platform.command_line import join_words
from edgeopt.quant.records import FLOAT
from edgeopt.views.blocks import some

SUFFIX = ".toml"


class ExportedProfile(msgspec.Struct, frozen=True):
    profile: str
    bundle: str
    size_bytes: int
    steps: tuple[str, ...]
    summary: str


class Imported(msgspec.Struct, frozen=True):
    """Preview of the result of a profile on this device; nothing is written."""

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
    """Reason why the backend cannot be used here, as a sentence; empty if it can."""
    steps: tuple[str, ...]
    processing: tuple[str, ...]
    """Processing before and after the model, a line each."""
    summary: str
    changes: tuple[Changed, ...]
    """Parts of this device that differ from the device of the proof."""
    command: str
    """Command that makes the bundle."""


def export(bundle: Path, out: Path) -> ExportedProfile:
    """Writes the profile with what calibration found inside, whole or not at all."""
    _check_out(out)
    profile = read_profile(bundle)
    deployment = profile.deployment
    if profile.record is not None and deployment.quantization is not None:
        record = CalibrationRecord(deployment.quantization.sha256, embedded=packed(profile.record))
        deployment = msgspec.structs.replace(deployment, quantization=record)
    if deployment.processing is not None:
        inside = embedded(deployment.processing, profile.processing)
        deployment = msgspec.structs.replace(deployment, processing=inside)
    content = to_toml(deployment).encode()
    if len(content) > LARGEST_BYTES:
        raise BundleError(
            f"Calibration results and processing of '{bundle.name}' are too large for one profile file "
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
    steps = tuple(describe_step(step) for step in deployment.steps)
    return ExportedProfile(str(out), str(bundle), len(content), steps, deployment.summary)


def preview_import(path: Path, model: Path | None = None) -> Imported:
    """Checks a profile as a replay would, short of doing it; raises what is wrong with it or with the model."""
    from edgeopt.pipeline.replay import source_of

    profile = read_profile(path)
    deployment = profile.deployment
    model_place(deployment)
    check_steps(profile)
    if model is not None:
        source_of(model, deployment)
    model_path, processing = model if model is not None else Path(deployment.source.name), deployment.processing
    parts = [] if processing is None else [("before the model", processing.pre), ("after it", processing.post)]
    out = str(free_place(deployment.name, path))
    return Imported(
        profile=str(path),
        name=deployment.name,
        source=deployment.source.name,
        source_digest=deployment.source.sha256,
        source_checked=model is not None,
        target=deployment.target,
        backend=deployment.run.backend,
        unavailable=_unavailable(profile),
        steps=tuple(describe_step(step) for step in deployment.steps),
        processing=tuple(f"{where}: {describe_part(part)}" for where, part in parts if part is not None),
        summary=deployment.summary,
        changes=changes_since(deployment, probe()),
        command=join_words(["edgeopt", "replay", str(path), str(model_path), "-o", out, "--measure"]),
    )


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
    check_outside_bundles(out)
    if out.suffix != SUFFIX:
        raise UsageError(f"'{out}' must end in {SUFFIX}.", f"Try -o {out.stem}{SUFFIX}.")
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


_NONE = "-"
_MAX_NAMED = 3


class DifferenceRow(msgspec.Struct, frozen=True):
    part: str
    """`run`, `steps`, `layers`, ..."""
    what: str
    first: str
    second: str


class Difference(msgspec.Struct, frozen=True):
    first: str
    second: str
    same_files: bool | None
    """Whether both run the same files; None where one holds no digests."""
    rows: tuple[DifferenceRow, ...]
    summary: str


def difference(first: Path, second: Path) -> Difference:
    """Compares two bundles or profiles, except for the time when they were made."""
    one, two = read_profile(first), read_profile(second)
    rows = tuple(_rows(one, two))
    files = one.deployment.files, two.deployment.files
    same = files[0] == files[1] if all(files) else None
    return Difference(str(first), str(second), same, rows, _summary(rows, same))


def _rows(first: Profile, second: Profile) -> Iterator[DifferenceRow]:
    one, two = first.deployment, second.deployment
    yield from _table("source", _source(one), _source(two))
    yield from _table("target", {"profile": one.target}, {"profile": two.target})
    yield from _table("run", _run(one), _run(two))
    yield from _table("inputs", _tensors(one.inputs), _tensors(two.inputs))
    yield from _table("outputs", _tensors(one.outputs), _tensors(two.outputs))
    yield from _table("processing", _processing_steps(one), _processing_steps(two))
    yield from _steps(one.steps, two.steps)
    yield from _layers(one.steps, two.steps)
    yield from _record(first, second)
    yield from _table("budget", _fields(one.budget), _fields(two.budget))
    yield from _table("device", one.machine, two.machine)
    yield from _table("runtimes", one.runtimes, two.runtimes)
    yield from _table("evidence", _fields(one.evidence), _fields(two.evidence))
    yield from _table("predicted", _fields(one.predicted), _fields(two.predicted))
    yield from _table("replayed", _fields(one.replayed), _fields(two.replayed))


def _table(part: str, first: Mapping[str, object], second: Mapping[str, object]) -> Iterator[DifferenceRow]:
    for name in dict.fromkeys((*first, *second)):
        one, two = first.get(name), second.get(name)
        if one != two:
            yield DifferenceRow(part, name, _NONE if one is None else str(one), _NONE if two is None else str(two))


def _source(deployment: Deployment) -> dict[str, str]:
    return {"model": f"{deployment.source.name} {deployment.source.sha256[:12]}"}


def _run(deployment: Deployment) -> dict[str, str]:
    return {"backend": deployment.run.backend, **{k: str(v) for k, v in deployment.run.options.items()}}


def _tensors(tensors: list[Tensor]) -> dict[str, str]:
    return {each.name: f"{each.dtype} [{', '.join(map(str, each.shape))}]" for each in tensors}


def _processing_steps(deployment: Deployment) -> dict[str, str]:
    processing = deployment.processing
    parts = {} if processing is None else {"before": processing.pre, "after": processing.post}
    return {name: describe_part(part) for name, part in parts.items() if part is not None}


def _fields(record: msgspec.Struct | None) -> dict[str, object]:
    return (
        {} if record is None else {k: v for k, v in msgspec.structs.asdict(record).items() if v not in ("", None)}
    )


def _steps(first: list[Step], second: list[Step]) -> Iterator[DifferenceRow]:
    names = [step.recipe for step in first], [step.recipe for step in second]
    if names[0] != names[1]:
        yield DifferenceRow("steps", "order", " > ".join(names[0]) or "none", " > ".join(names[1]) or "none")
    theirs = {step.recipe: step.parameters for step in second}
    for step in (step for step in first if step.recipe in theirs):
        mine, other = step.parameters, theirs[step.recipe]
        for name in dict.fromkeys((*mine, *other)):
            if mine.get(name) != other.get(name):
                yield _parameter(f"{step.recipe}: {name}", mine.get(name), other.get(name))


def _parameter(what: str, one: object, two: object) -> DifferenceRow:
    """Returns the row of a parameter that differs; for lists, the items that only one of them has."""
    if isinstance(one, list) and isinstance(two, list):
        only = [str(v) for v in one if v not in two], [str(v) for v in two if v not in one]
        if any(only):
            return DifferenceRow(
                "steps", what, *(f"only: {some(names, _MAX_NAMED)}" if names else "no more" for names in only)
            )
        return DifferenceRow("steps", what, "in one order", "in another")
    return DifferenceRow("steps", what, *(_NONE if value is None else str(value) for value in (one, two)))


def _layers(first: list[Step], second: list[Step]) -> Iterator[DifferenceRow]:
    """Yields the layers that have another scheme, those with the same change together."""
    one, two = _schemes(first), _schemes(second)
    changed: dict[tuple[str, str], list[str]] = {}
    for layer in dict.fromkeys((*one, *two)):
        schemes = one.get(layer, FLOAT), two.get(layer, FLOAT)
        if schemes[0] != schemes[1]:
            changed.setdefault(schemes, []).append(layer)
    for schemes, layers in changed.items():
        yield DifferenceRow("layers", some(layers, _MAX_NAMED), *schemes)


def _schemes(steps: list[Step]) -> dict[str, str]:
    return {layer: scheme for step in steps for scheme, layers in step.forms.items() for layer in layers}


def _record(first: Profile, second: Profile) -> Iterator[DifferenceRow]:
    if first.record != second.record:
        one, other = ("none" if each.record is None else "its own" for each in (first, second))
        sources = (one, other) if one != other else ("its own", "another")
        yield DifferenceRow("quantization", "what calibration found", *sources)


def _summary(rows: tuple[DifferenceRow, ...], same: bool | None) -> str:
    files = {True: "Both run the same files", False: "They run different files", None: ""}[same]
    parts = list(dict.fromkeys(row.part for row in rows))
    if not parts:
        return f"{files or 'They are equal'}; their profiles differ only in the time of creation."
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{files}; they differ in: {listed}." if files else f"They differ in: {listed}."
