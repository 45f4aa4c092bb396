"""Sides from the user's names, prepared to run on the same inputs: their tensors, samples and cores."""

import filecmp
import os
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations
from math import prod
from pathlib import Path
from zipfile import BadZipFile

import msgspec

from edgeopt import units
from edgeopt.backends import PROCESSOR, backend_named
from edgeopt.backends.base import Available, TensorInfo
from edgeopt.backends.intended import is_usable
from edgeopt.backends.options import MAX_THREADS, read_options, side_of
from edgeopt.bundle.processing.attach import pictures_for
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.locate import SessionPlace, locate
from edgeopt.commands.bench.generation import (
    AnswerSettings,
    GenerationPlan,
    decoders_of,
    plan_generation,
    with_first_runs,
)
from edgeopt.commands.bench.naming import NamedSide, OptionValue, side_names
from edgeopt.commands.bench.originals import check_options, open_originals
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds, save_samples
from edgeopt.errors import DataError, EdgeoptError, MissingError, ModelError, TrialError, UsageError, no_outputs
from edgeopt.events import Emit, Log, Progress
from edgeopt.graph.feeds import generate_feeds
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.hw.topology import cores_for
from edgeopt.importing.request import SourceOptions
from edgeopt.measure.contender import Side, ask, load_patience_s, reason
from edgeopt.measure.messages import Answer, Describe, Described, Load
from edgeopt.measure.report import OriginalRun
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workers.protocol import Failed

_MAX_A_CORE = 8
# Options that set the number of threads of a backend.
_COUNTS = ("threads", "inter_threads", "intra_op_num_threads", "compile_threads")


def chosen_cores(options: dict[str, OptionValue]) -> tuple[dict[str, OptionValue], tuple[int, ...]]:
    """Returns the options with `threads` as a number, and the cores that a word for threads stood for; none: all.

    Raises UsageError for more threads than can ever get on: a run would take minutes, for ever as it seems.
    """
    logical = os.cpu_count() or 1
    maximum = min(MAX_THREADS, _MAX_A_CORE * logical)
    for name in _COUNTS:
        count = options.get(name)
        if isinstance(count, int) and count > maximum:
            raise UsageError(
                f"'{name}' must be at most {maximum} here, {_MAX_A_CORE} for each of {logical} logical cores, "
                f"not {count}.",
                "Name cores instead: usable, physical or performance.",
            )
    word = options.get("threads")
    if not isinstance(word, str):
        return options, ()
    chosen = cores_for(word, _device())
    return {**options, "threads": chosen.threads}, chosen.cores


@cache
def _device() -> Device:
    return probe()


_ERRORS: dict[str, type[EdgeoptError]] = {each.code: each for each in (UsageError, MissingError)}
# The options that change what a model takes.
_SHAPING = ("free_dimensions",)

Tensors = tuple[TensorInfo, ...]


def describe_all(
    loads: Sequence[Load], names: Sequence[str], folder: Path, timeout_s: float | None = None
) -> list[Described | None]:
    """Returns each side's inputs and outputs; None for a program, which does not report them.

    `timeout_s` limits each load.
    """
    known: dict[bytes, Described] = {}
    found: list[Described | None] = []
    for load, name in zip(loads, names, strict=True):
        if load.backend == "command":
            found.append(None)
            continue
        # Backends do not change what a model takes.
        key = msgspec.json.encode((load.model_path, _shaping(load)))
        if key not in known:
            known[key] = _ports(load, name, folder, timeout_s)
        found.append(known[key])
    return found


def narrowest(inputs: Sequence[Tensors | None], names: Sequence[str]) -> Tensors | None:
    """Returns inputs that fit all sides, each axis at the size that one side fixes; raises ModelError."""
    known = [(name, found) for name, found in zip(names, inputs, strict=True) if found is not None]
    for one, other in combinations(known, 2):
        _same_inputs(one, other)
    if not known:
        return None
    return tuple(
        _narrowed([next(t for t in found if t.name == tensor.name) for _, found in known])
        for tensor in known[0][1]
    )


def _narrowed(alike: list[TensorInfo]) -> TensorInfo:
    ranked = [tensor for tensor in alike if tensor.rank_known]
    if not ranked:
        return alike[0]
    axes = zip(*(tensor.shape for tensor in ranked), strict=True)
    # A name says more than nothing: samples are made up by it.
    shape = tuple(min(axis, key=lambda d: (not isinstance(d, int), not isinstance(d, str))) for axis in axes)
    return msgspec.structs.replace(ranked[0], shape=shape)


def _shaping(load: Load) -> dict[str, str | int | float | bool | dict[str, list[int]]]:
    return {name: load.options[name] for name in _SHAPING if load.options.get(name)}


def _ports(load: Load, name: str, folder: Path, timeout_s: float | None) -> Described:
    answer: Answer | None = None
    describe = partial(_describe, load, timeout_s=timeout_s or load_patience_s(load), folder=folder)
    peer = _on_processor(load)
    if peer is not None:
        # A model that only the accelerator can load is described by the accelerator.
        try:
            answer = describe(peer)
        except TrialError:
            answer = None
    if not isinstance(answer, Described):
        try:
            answer = describe(load.backend)
        except TrialError as error:
            hint = "The file may be damaged."
            if error.ending == "hung":
                hint = "Give it longer with --load-timeout SECONDS; or the file may be damaged."
            raise ModelError(f"Loading '{name}' {error.message.rstrip('.')}.", hint) from None
    if isinstance(answer, Failed):
        kind = _ERRORS.get(answer.code, ModelError)
        hint = answer.hint or "Check it with its own runtime."
        if kind is ModelError and load.backend not in {"url", "command"} and not load.custom_ops:
            hint = f"{hint.rstrip('.')}; custom operators need their library: --custom-ops LIB"
        raise kind(answer.message, hint)
    if not isinstance(answer, Described):
        raise ModelError(reason(answer), "Check the file with its own runtime.")
    if not answer.outputs:
        raise no_outputs(name)
    return answer


def _describe(load: Load, backend: str, timeout_s: float, folder: Path) -> Answer:
    with closing(LocalHost(folder).start()) as child:
        return ask(child, Describe(backend, load.model_path, load.custom_ops, _shaping(load)), timeout_s)


def _on_processor(load: Load) -> str | None:
    """Returns the processor-only backend of the same runtime; None if the side's own is used.

    Compiling for an accelerator may take minutes, and its session takes the same inputs.
    """
    name = f"{load.backend.partition('-')[0]}-cpu"
    if name == load.backend or name not in PROCESSOR:
        return None
    return name if isinstance(backend_named(name).available(), Available) else None


def _same_inputs(one: tuple[str, Tensors], two: tuple[str, Tensors]) -> None:
    (first_name, first), (name, other) = one, two
    theirs = {tensor.name: tensor for tensor in other}
    odd = next((t for t in first if t.name in theirs and not _alike(t, theirs[t.name])), None)
    if {tensor.name for tensor in first} != set(theirs):
        difference = f"{', '.join(t.name for t in first) or 'none'} and {', '.join(theirs) or 'none'}"
    elif odd is not None:
        difference = f"'{odd.name}' is {_described_tensor(odd)} and {_described_tensor(theirs[odd.name])}"
    else:
        return
    raise ModelError(
        f"'{first_name}' and '{name}' take different inputs: {difference}.",
        "Compare models with the same inputs.",
    )


def _alike(one: TensorInfo, other: TensorInfo) -> bool:
    """Whether some data fits both."""
    if one.dtype != other.dtype:
        return False
    if not (one.rank_known and other.rank_known):
        return True
    fixed = [
        (a, b) for a, b in zip(one.shape, other.shape, strict=False) if isinstance(a, int) and isinstance(b, int)
    ]
    return len(one.shape) == len(other.shape) and all(a == b for a, b in fixed)


def _described_tensor(tensor: TensorInfo) -> str:
    return f"{tensor.dtype} [{', '.join('?' if d is None else str(d) for d in tensor.shape)}]"


_GENERATED_SAMPLES = 16
_MAX_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Inputs:
    """Samples in a folder, as trials read them, and their source in words."""

    folder: Path
    words: str
    tensors: tuple[TensorInfo, ...]


def write_inputs(
    named: list[NamedSide],
    places: list[SessionPlace | None],
    tensors: tuple[TensorInfo, ...] | None,
    settings: "Settings",
    folder: Path,
) -> Inputs:
    """Writes the samples; raises DataError where none are given and none can be made up."""
    samples = folder / "samples"
    golden = next((each.path for each in named if each.kind == "bundle"), None)
    if tensors is None:
        raise DataError(
            f"Inputs for '{named[0].what}' cannot be generated: it does not declare them.",
            "Pass samples with --data, or a model with the same inputs with --against.",
        )
    data, user_samples = settings.data, None
    if data is not None:
        bundles = (each.deployment.processing for each in places if each is not None and each.deployment)
        user_samples = load_data(data, tensors, pictures_for(settings.pre, *bundles))
    if not tensors:
        save_samples(Samples({}, {}), samples)
        return Inputs(samples, "none, the model takes no inputs", ())
    if user_samples is not None and data is not None:
        return _saved(user_samples, data.name, tensors, samples)
    if golden is not None:
        feeds = read_bundle(golden).golden("inputs")
        what = f"the golden inputs of {golden.name}"
        return _saved(check_samples(from_feeds(feeds), tensors, what), what, tensors, samples)
    count = _count(tensors)
    _generate(named, places, tensors, samples, folder, count)
    return Inputs(samples, units.count(count, "generated sample"), tensors)


def _named_arrays(data: Path) -> tuple[TensorInfo, ...]:
    """Returns the arrays of the data themselves, for a program that does not report its inputs."""
    import numpy as np

    try:
        if data.is_dir():
            arrays = {file.stem: np.load(file, mmap_mode="r") for file in sorted(data.glob("*.npy"))}
        else:
            # Opened here: numpy leaves a damaged archive open.
            with data.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, TypeError, BadZipFile, zlib.error):
        arrays = {}  # errors in it are reported when the samples are read
    return tuple(TensorInfo(name, array.dtype.name, (), rank_known=False) for name, array in arrays.items())


def _saved(samples: Samples, what: str, tensors: tuple[TensorInfo, ...], folder: Path) -> Inputs:
    save_samples(samples, folder)
    words = (f"{what} ({units.count(len(samples), 'sample')})", *(each.rstrip(".") for each in samples.converted))
    return Inputs(folder, "; ".join(words), tensors)


def _count(tensors: tuple[TensorInfo, ...]) -> int:
    """Returns the number of samples to generate, fewer if they are large; open dimensions are generated small."""
    import numpy as np

    def size(tensor: TensorInfo) -> int:
        known = tensor.dtype in np.sctypeDict
        return prod(d for d in tensor.shape if isinstance(d, int)) * (
            np.dtype(tensor.dtype).itemsize if known else 1
        )

    return max(1, min(_GENERATED_SAMPLES, _MAX_BYTES // max(1, sum(map(size, tensors)))))


def _generate(
    named: list[NamedSide],
    places: list[SessionPlace | None],
    tensors: tuple[TensorInfo, ...],
    samples: Path,
    folder: Path,
    count: int,
) -> None:
    """Generates samples from the graph, which shows the valid integers, or else from types and shapes."""
    model = next((p.model for p in places if p is not None and p.model.suffix == ".onnx"), None)
    if model is not None:
        from edgeopt.pipeline.builders.variants import inspect  # imports all passes and schemes

        with closing(WorkerClient(LocalHost(folder))) as client:
            inspect(client, model, samples, count, narrowed=tensors)
        return
    if all(p is not None and p.model.suffix != ".xml" for p in places):
        raise DataError(f"Inputs for '{named[0].path.name}' cannot be generated.", "Pass samples with --data.")
    try:
        feeds = generate_feeds(tensors, None, count, seed=0)
        save_samples(check_samples(from_feeds(feeds), tensors, "what was generated"), samples)
    except (EdgeoptError, TypeError, ValueError) as error:
        raise DataError(
            f"Inputs for '{named[0].what}' cannot be generated: {error}", "Pass samples with --data."
        ) from error


_IR = ".xml"
# The key under which a tensor of an ONNX file names the file with its values.
_EXTERNAL = b"location"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that apply to every side."""

    data: Path | None = None
    custom_ops: tuple[str, ...] = ()
    strict: bool = False
    counters: bool = False
    threads: str | None = None
    """Number of threads, or a word for cores, for sides that do not set it themselves."""
    load_timeout_s: float | None = None
    """Maximum load time of a side, in seconds; None: derived from its backend and size."""
    source: SourceOptions = field(default_factory=SourceOptions)
    """Options for opening models of other frameworks."""
    pre: Path | None = None
    generation: AnswerSettings | None = None
    """Settings of the answers to measure if all sides are language models; None: runs are measured."""


@dataclass(frozen=True, slots=True)
class PreparedSides:
    """Sides ready to load, and the samples that all of them run on."""

    sides: list[Side]
    inputs: Inputs
    places: list[SessionPlace | None]
    """Locations of the sides; a single-file bundle stays unpacked while its location is referenced."""
    originals: tuple[OriginalRun, ...] = ()
    generation: GenerationPlan | None = None
    """Answers to measure instead of runs."""


def prepare(named: list[NamedSide], settings: Settings, folder: Path, emit: Emit) -> PreparedSides:
    """Checks every side as far as that goes without measuring; `folder` takes the samples."""
    libraries = _libraries(settings.custom_ops)
    check_options(named, settings.source)
    for each in named:
        if each.kind == "bundle" and libraries:
            raise UsageError(
                f"The bundle '{each.path.name}' takes no custom operators: its manifest must cover all code "
                "it runs.",
                "Measure the model file with --custom-ops.",
            )
    if not any(each.kind in {"model", "bundle"} for each in named):
        for option, value in (("--custom-ops", libraries), ("--strict", settings.strict)):
            if value:
                raise UsageError(
                    f"{option} is for models, not for programs and served models.",
                    f"Leave {option} out.",
                )
    if settings.threads is not None:
        _check_threads(named, emit)
    names = side_names(named)
    places = [
        locate(each.path, each.backend, each.options) if each.kind in {"model", "bundle"} else None
        for each in named
    ]
    _warn_of_other_targets(named, places, emit)
    loads = [_load(each, place, settings, libraries) for each, place in zip(named, places, strict=True)]
    emit(Progress("reading the model", names[0]))
    described = describe_all(loads, names, folder, settings.load_timeout_s)
    answers, plan = settings.generation, None
    decoders = None if answers is None else decoders_of(answers, names, places, described)
    if answers is not None and decoders and places[0] is not None:
        plan = plan_generation(answers, decoders, places[0].text, settings.data)
        written = Inputs(folder / "samples", plan.words(), ())
    else:
        inputs = narrowest([None if each is None else each.inputs for each in described], names)
        if inputs is None and settings.data is not None:
            inputs = _named_arrays(settings.data)
        written = write_inputs(named, places, inputs, settings, folder)
    sides = [
        Side(
            name,
            msgspec.structs.replace(load, samples_path=str(written.folder)),
            each.what,
            "command" if each.kind == "source" else each.kind,
        )
        for name, each, load in zip(names, named, loads, strict=True)
    ]
    if plan is not None and decoders:
        sides = with_first_runs(sides, decoders, plan)
    sides, originals = open_originals(named, sides, settings.source, settings.threads, folder, emit)
    first, *others = sides
    marked = [msgspec.structs.replace(each, same_as_first=_is_same(first, each)) for each in others]
    return PreparedSides([first, *marked], written, places, originals, plan)


def _is_same(one: Side, other: Side) -> bool:
    """Whether both run the same model in the same runtime with the same options."""
    mine, its = Path(one.load.model_path), Path(other.load.model_path)
    alike = (
        msgspec.structs.replace(one.load, model_path=other.load.model_path, samples_path=other.load.samples_path)
        == other.load
    )
    if not (alike and mine.is_file() and its.is_file()):
        return False
    if mine.samefile(its):
        return True
    files = [(mine, its)]
    if mine.suffix == _IR and its.suffix == _IR:
        files.append((mine.with_suffix(".bin"), its.with_suffix(".bin")))
    elif _EXTERNAL in mine.read_bytes():  # the weights are in files of other names
        return False
    return all(a.is_file() and b.is_file() and filecmp.cmp(a, b, shallow=False) for a, b in files)


def _check_threads(named: list[NamedSide], emit: Emit) -> None:
    """Warns that bundles keep their proved threads; raises UsageError if no side takes `--threads`."""
    if not any(each.kind in {"model", "source"} for each in named):
        raise UsageError(
            "--threads is for models; bundles, programs and served models set their own.",
            "Leave it out, or name the model file.",
        )
    for each in named:
        if each.kind == "bundle":
            emit(Log("warning", f"'{each.path.name}' keeps the threads it was proved with."))


def _warn_of_other_targets(named: list[NamedSide], places: list[SessionPlace | None], emit: Emit) -> None:
    """Warns of each file that runs otherwise than it was made for."""
    for each, place in zip(named, places, strict=True):
        made = each.made_for
        if made is None or each.is_as_made or place is None:
            continue
        how, here = side_of(made.backend, made.options), place.backend.name
        missing = "" if is_usable(made.backend) else f" ({made.backend} is not available)"
        unproven = f" There it {made.not_proved[here]}" if here in made.not_proved else ""
        message = f"'{each.path.name}' was made for {how}; this side runs on {here}{missing}.{unproven}"
        emit(Log("warning", message))


def _load(named: NamedSide, place: SessionPlace | None, settings: Settings, libraries: tuple[str, ...]) -> Load:
    if place is None:
        load = Load("command" if named.kind == "source" else named.kind, named.what, {}, "")
        # A little less than its answer is waited for, so that the program is blamed and not its trial.
        patience_s = load.patience_s if settings.load_timeout_s is None else 0.9 * settings.load_timeout_s
        return msgspec.structs.replace(load, patience_s=patience_s)
    if named.kind == "bundle":
        return Load(
            place.backend.name, str(place.model), dict(place.options), "",
            strict=settings.strict, counters=settings.counters,
        )  # fmt: skip
    formats = place.backend.formats
    if place.model.suffix not in formats and not place.model.name.endswith(formats):
        raise UsageError(
            f"The backend {place.backend.name} does not read '{place.model.name}'; it reads {', '.join(formats)}.",
            "Name another backend, or the model in such a format.",
        )
    options = dict(named.options)
    if settings.threads is not None and "threads" not in options:
        options["threads"] = int(settings.threads) if settings.threads.isdecimal() else settings.threads
    options, cores = chosen_cores(options)
    read_options(place.backend.options, options, place.backend.name)
    return Load(
        place.backend.name, str(place.model), options, "",
        custom_ops=libraries, strict=settings.strict, cores=cores, counters=settings.counters,
    )  # fmt: skip


def _libraries(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"There is no library of custom operators at '{path}'.", "Check the path.")
    return tuple(str(Path(path).absolute()) for path in paths)
