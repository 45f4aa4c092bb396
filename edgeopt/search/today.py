"""The incumbent as a bundle: a model becomes one, to be measured like any other."""

import shlex
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Run, Source, tensor_of
from edgeopt.bundle.manifest import file_digest
from edgeopt.bundle.read import Bundle, is_bundle, read_bundle
from edgeopt.errors import ModelError, TrialError, UsageError
from edgeopt.measure.contender import ask, load_patience_s, reason
from edgeopt.measure.host import TrialHost
from edgeopt.measure.messages import Describe, Described, Load
from edgeopt.search.making.messages import Inspected
from edgeopt.search.making.variants import Maker, inspect
from edgeopt.search.racing.ground import Ground
from edgeopt.version import __version__

# With default options: users with other options pass a bundle, which contains them.
_RUNTIMES = {".onnx": "onnxruntime-cpu", ".xml": "openvino-cpu"}
Tensors = tuple[TensorInfo, ...]
_FOLDER = "today"
_OF_THIS_MODEL = "Give a deployment of this model as --baseline."


def running_today(path: Path, model: Path, facts: Inspected, ground: Ground, maker: Maker) -> Bundle:
    """`facts`: of the source. UsageError where it is of another model, or cannot run the samples."""
    current = read_bundle(path) if is_bundle(path) or path.is_dir() else _wrapped(path, model, ground, maker)
    described = current.deployment
    for kind, theirs, ours in (
        ("takes", described.inputs, facts.inputs),
        ("gives", described.outputs, facts.outputs),
    ):
        one, two = {t.name: t.dtype for t in theirs}, {t.name: t.dtype for t in ours}
        if one != two:
            raise UsageError(
                f"'{path.name}' {kind} {_told(one, two)}, but the model {kind} {_told(two, one)}.", _OF_THIS_MODEL
            )
    try:
        ground.enter("current", "bundle", current.folder).close()
    except TrialError as error:
        raise UsageError(
            f"The baseline '{path.name}' cannot run the samples: {error.message.rstrip('.')}.", _OF_THIS_MODEL
        ) from None
    return current


def is_wrapped(current: Bundle, folder: Path) -> bool:
    """Whether it was a model, so that the bundle around it was made in this search and holds no evidence."""
    return current.folder == folder / _FOLDER


def _wrapped(path: Path, model: Path, ground: Ground, maker: Maker) -> Bundle:
    if path.suffix == ".toml":
        replay = ["edgeopt", "replay", str(path), str(model), "-o", str(write.free_place(path.stem))]
        raise UsageError(
            f"'{path.name}' is a deployment profile, which cannot run.",
            f"Build its bundle first: {shlex.join(replay)}",
        )
    if not path.exists():
        raise ModelError(f"There is nothing at '{path}'.", "Check its path.")
    if path.suffix not in _RUNTIMES:
        raise UsageError(
            f"'{path.name}' is not a bundle or model.",
            "Give a bundle, an ONNX model (.onnx) or an OpenVINO model (.xml).",
        )
    folder = ground.folder / _FOLDER
    if path.suffix == ".onnx":
        found = inspect(maker, path, ground.folder / "today-inputs", 1)
        inputs, outputs, digest, beside = found.inputs, found.outputs, found.digest, found.external
    else:
        inputs, outputs = _described(path, ground.host)
        weights = path.with_suffix(".bin")
        digest, beside = file_digest(path), (weights.name,) if weights.is_file() else ()
    files = {name: path.parent / name for name in (path.name, *beside)}
    deployment = Deployment(
        name=path.stem,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        edgeopt=__version__,
        target="what ran before",
        summary="The given baseline, unchanged.",
        source=Source(path.name, digest, sum(file.stat().st_size for file in files.values())),
        run=Run(_RUNTIMES[path.suffix], f"{write.MODEL_FOLDER}/{path.name}"),
        inputs=[tensor_of(each) for each in inputs],
        outputs=[tensor_of(each) for each in outputs],
    )
    folder.mkdir()
    write.fill(folder, files, deployment, {})
    return read_bundle(folder)


def _described(path: Path, host: TrialHost) -> tuple[Tensors, Tensors]:
    """By its own runtime, in a process of its own."""
    backend, place = _RUNTIMES[path.suffix], host.put(path)
    with closing(host.start()) as child:
        try:
            answer = ask(child, Describe(backend, place), load_patience_s(Load(backend, place, {}, "")))
        except TrialError as error:
            raise ModelError(f"Loading '{path.name}' {error.message.rstrip('.')}.", "It may be damaged.") from None
    if not isinstance(answer, Described):
        raise ModelError(f"'{path.name}' cannot be loaded: {reason(answer)}", "Check it with OpenVINO itself.")
    return answer.inputs, answer.outputs


def _told(these: dict[str, str], others: dict[str, str]) -> str:
    """The names; with the type where only that differs."""
    same_names = these.keys() == others.keys()
    return ", ".join(f"{name} ({dtype})" if same_names else name for name, dtype in these.items()) or "nothing"
