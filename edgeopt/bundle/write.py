"""Writing a bundle: beside its final place under a hidden name, then moved there in one step."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import psutil

from edgeopt.backends.base import Array
from edgeopt.bundle import manifest
from edgeopt.bundle.archive import holds, pack_into
from edgeopt.bundle.cache import found_cache
from edgeopt.bundle.deployment import (
    ENCODER,
    FILE,
    Cache,
    CalibrationRecord,
    Deployment,
    check_outside_bundles,
    info_of,
    to_toml,
)
from edgeopt.bundle.durable import MARK, OLD, publish_folder, remove
from edgeopt.bundle.read import Bundle, read_bundle
from edgeopt.data.samples import write_archive
from edgeopt.errors import UsageError, writing_to
from edgeopt.graph.rows.record import RowAnalysis
from edgeopt.platform.files import rename_path
from edgeopt.text.tokenizer import FOLDER, text_folder

MODEL_FOLDER = "model"
RECORD = "quantization.json"
"""File of the calibration results; see `edgeopt.quant.write`."""


def check_target(out: Path, sources: Sequence[Path] = ()) -> None:
    """Raises UsageError when a bundle cannot be written there; said before the long work starts.

    `sources` are the user's files that the search reads: a bundle must not take their place.
    """
    if not out.is_absolute() or ".." in out.parts:
        raise UsageError(f"'{out}' is not a plain absolute path.", "Choose another name for -o.")
    if out == Path.cwd() or os.path.ismount(out):
        raise UsageError(
            f"'{out}' is a folder that cannot be replaced.", "Choose a new name inside that folder for -o."
        )
    inside = next((s for s in sources if s.resolve().is_relative_to(out.resolve())), None)
    if inside is not None:
        raise UsageError(f"'{inside}' lies inside '{out}', which the bundle would replace.", "Choose another -o.")
    if out.is_symlink() or (out.exists() and not _replaceable(out)):
        raise UsageError(
            f"'{out}' already exists and is not a bundle, so it is not replaced.", "Choose another name for -o."
        )
    parent = out.parent
    if not parent.is_dir():
        raise UsageError(
            f"The folder '{parent}' does not exist.", "Create it first, or choose another place for -o."
        )
    if not os.access(parent, os.W_OK):
        raise UsageError(f"The folder '{parent}' cannot be written to.", "Choose another place for -o.")
    check_outside_bundles(out)


def free_place(name: str, *sources: Path) -> Path:
    """NAME.edgeopt in this folder, or another name where a bundle would replace what it is made from."""
    out = Path(f"{name}.edgeopt")
    is_taken = any(each.resolve().is_relative_to(out.resolve()) for each in sources)
    return Path(f"{name}-again.edgeopt") if is_taken else out


@contextmanager
def draft(out: Path) -> Iterator[Path]:
    """A hidden folder beside the target to write in; gone afterwards unless it was published."""
    _sweep(out.parent)
    with writing_to(out):
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}{MARK}{os.getpid()}-", dir=out.parent))
    folder.chmod(0o777 & ~_umask())  # what `mkdir` would have given: a bundle is for others to read
    try:
        with writing_to(out, inside=folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_text(folder: Path, model: Path, first: Bundle | None = None) -> None:
    """Copies a tokenizer, if there is one, into a bundle: that of the first bundle, or that beside the model."""
    places = [*([first.folder / FOLDER] if first is not None else []), text_folder(model)]
    source = next((each for each in places if each.is_dir()), None)
    if source is not None:
        shutil.copytree(source, folder / FOLDER)


def put_encoder(folder: Path, encoder: Bundle) -> None:
    """Copies the bundle of the encoder into that of its decoder, before the manifest is written."""
    shutil.copytree(encoder.folder, folder / ENCODER)


def fill(
    folder: Path,
    model_files: Mapping[str, Path],
    deployment: Deployment,
    documents: dict[str, object],
    record: bytes | None = None,
) -> None:
    """Writes the model, the deployment profile and the JSON documents, then the manifest over all of them.

    `model_files` are copied, never linked: ONNX loaders reject linked external data. The digests of the model's
    files, and that of the record of its quantization, go into the deployment profile.
    """
    target = folder / MODEL_FOLDER
    if not target.exists():
        for name, file in model_files.items():
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    digests = {
        file.relative_to(folder).as_posix(): manifest.file_digest(file)
        for file in sorted(target.rglob("*"))
        if file.is_file()
    }
    deployment = msgspec.structs.replace(
        deployment, files=digests, batches=_rows(folder, deployment), cache=_cache(deployment)
    )
    if record is not None:
        (folder / RECORD).write_bytes(record)
        kept = CalibrationRecord(hashlib.sha256(record).hexdigest(), RECORD)
        deployment = msgspec.structs.replace(deployment, quantization=kept)
    (folder / FILE).write_text(to_toml(deployment), encoding="utf-8")
    for name, document in documents.items():
        _write_document(folder, name, document)
    manifest.write_manifest(folder)


def _rows(folder: Path, deployment: Deployment) -> RowAnalysis | None:
    """Whether the rows of a batch affect each other; None where an axis is fixed, or there is no ONNX graph."""
    model = folder / deployment.run.model
    fixed = any(
        each.shape and isinstance(each.shape[0], int) for each in (*deployment.inputs, *deployment.outputs)
    )
    if fixed or model.suffix != ".onnx" or not model.is_file():
        return None
    from edgeopt.graph.rows.analysis import analyze_rows

    return analyze_rows(model)


def _cache(deployment: Deployment) -> Cache | None:
    """Returns the declared cache, or that of a decoder by the names of its ports; None for other models."""
    if deployment.cache is not None:
        return deployment.cache
    inputs, outputs = (tuple(map(info_of, each)) for each in (deployment.inputs, deployment.outputs))
    try:
        return found_cache(inputs, outputs, {each.name: each.limits for each in deployment.inputs})
    except UsageError:
        return None


Runs = Sequence[dict[str, Array]]


def write_golden(folder: Path, name: str, runs: Runs) -> None:
    """Writes some runs' inputs or outputs as golden arrays, samples along the first axis.

    Outputs whose shape depends on the sample (detections, say) cannot be one array: then each sample is a file.
    """
    golden = folder / "golden"
    golden.mkdir(exist_ok=True)
    if all(run[key].shape == runs[0][key].shape for run in runs for key in runs[0]):
        write_archive(golden / f"{name}.npz", {key: np.stack([run[key] for run in runs]) for key in runs[0]})
        return
    (golden / name).mkdir()
    for position, run in enumerate(runs):
        write_archive(golden / name / f"{position}.npz", run)


GOLDEN_SAMPLES = 4
_MAX_GOLDEN_BYTES = 64 << 20


def max_golden(sample_bytes: int) -> int:
    """Returns the number of golden samples of this size, with their outputs, that a bundle holds at most."""
    return max(1, min(GOLDEN_SAMPLES, _MAX_GOLDEN_BYTES // max(1, sample_bytes)))


def golden_places(count: int, maximum: int = GOLDEN_SAMPLES) -> list[int]:
    """The places of a few of `count` samples, from first to last: generated ones begin with the ordinary."""
    golden = min(count, maximum)
    return [round(k * (count - 1) / max(golden - 1, 1)) for k in range(golden)]


def write_golden_runs(folder: Path, inputs: Runs, outputs: Runs, reference: Runs) -> None:
    """Samples, what the bundle answers to them, and what the source model does."""
    for name, runs in (("inputs", inputs), ("outputs", outputs), ("reference", reference)):
        write_golden(folder, name, runs)


def publish(folder: Path, out: Path, *, single_file: bool = False) -> None:
    """Puts the finished bundle in its place, as a folder or as one file, replacing an older one in one step."""
    check_target(out)  # once more: something else may have come there while the search ran
    if _empty_folder(out):
        out.rmdir()
    if single_file:
        pack_into(folder, out)
    else:
        publish_folder(folder, out)


def replace_document(out: Path, name: str, document: object) -> None:
    """Replaces one JSON document of a bundle that was just written, and its manifest, in one step."""
    bundle = read_bundle(out)
    with draft(out) as folder:
        shutil.copytree(bundle.folder, folder, dirs_exist_ok=True)
        put_document(folder, name, document)
        publish(folder, out, single_file=out.is_file())


def put_document(folder: Path, name: str, document: object) -> None:
    """Writes a JSON document into the draft of a bundle, and the manifest of its files; removes a signature."""
    _write_document(folder, name, document)
    (folder / manifest.SIGNATURE).unlink(missing_ok=True)
    manifest.write_manifest(folder)


def _write_document(folder: Path, name: str, document: object) -> None:
    (folder / name).write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1))


def _replaceable(out: Path) -> bool:
    """A bundle, sound or damaged, or nothing; one name is too little, for web apps have a manifest.json too."""
    names = (FILE, manifest.FILE)
    if out.is_file():
        return holds(out, names)
    return all((out / name).exists() for name in names) or _empty_folder(out)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _empty_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _sweep(parent: Path) -> None:
    """Removes what a killed search left here, and puts back an older bundle that it had just moved away."""
    for left in parent.glob(f".*{MARK}*"):
        name, rest = left.name[1:].split(MARK, 1)
        owner = rest.split("-")[0]
        if not owner.isdigit() or psutil.pid_exists(int(owner)):
            continue
        with contextlib.suppress(OSError):
            if rest.endswith(OLD) and not (parent / name).exists():
                rename_path(left, parent / name)
            else:
                remove(left)
