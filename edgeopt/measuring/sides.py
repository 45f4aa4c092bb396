"""From what the user named to sides on the same inputs, for `edgeopt bench` and `edgeopt watch`."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.backends.options import read_options
from edgeopt.bench.contender import Side, ask, reason
from edgeopt.bench.host import LocalHost
from edgeopt.bench.messages import Describe, Described, Failed, Load
from edgeopt.errors import EdgeoptError, MissingError, ModelError, TrialError, UsageError
from edgeopt.events import Emit, Log, Progress
from edgeopt.measuring.inputs import Inputs, named_arrays, write_inputs
from edgeopt.measuring.naming import Named, side_names
from edgeopt.measuring.threads import chosen_cores
from edgeopt.runtime.session import Place, locate

_ERRORS: dict[str, type[EdgeoptError]] = {each.code: each for each in (UsageError, MissingError)}


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every side."""

    data: Path | None = None
    custom_ops: tuple[str, ...] = ()
    strict: bool = False
    counters: bool = False
    threads: str | None = None
    """A number, or a word for cores; for sides that do not say it themselves."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Sides ready to load, and the samples that all of them run on."""

    sides: list[Side]
    inputs: Inputs


def prepare(named: list[Named], settings: Settings, folder: Path, emit: Emit) -> Prepared:
    """Checks every side as far as that goes without measuring; `folder` takes the samples."""
    libraries = _libraries(settings.custom_ops)
    for each in named:
        if each.kind == "bundle" and libraries:
            raise UsageError(
                f"The bundle '{each.path.name}' takes no custom operators: a bundle holds all that it needs, "
                "checked and signed, and a library would be neither.",
                "Measure the model itself with --custom-ops.",
            )
    if settings.threads is not None:
        _tell_who_keeps_theirs(named, emit)
    names = side_names(named)
    places = [locate(each.path, each.backend) if each.kind in {"model", "bundle"} else None for each in named]
    loads = [_load(each, place, settings, libraries) for each, place in zip(named, places, strict=True)]
    emit(Progress("reading the model", names[0]))
    described = _described(loads, names, folder)
    _same_inputs(described, names)
    inputs = next((found for found in described if found is not None), None)
    if inputs is None and settings.data is not None:
        inputs = named_arrays(settings.data)
    written = write_inputs(named, places, inputs, settings.data, folder)
    sides = [
        Side(name, msgspec.structs.replace(load, samples_path=str(written.folder)), each.what, each.kind)
        for name, each, load in zip(names, named, loads, strict=True)
    ]
    return Prepared(sides, written)


def _tell_who_keeps_theirs(named: list[Named], emit: Emit) -> None:
    """`--threads` is for models; a bundle has what it was proved with."""
    if not any(each.kind == "model" for each in named):
        raise UsageError(
            "--threads is for models: bundles, programs and served models bring their own.",
            "Leave it out, or name the model file.",
        )
    for each in named:
        if each.kind == "bundle":
            emit(Log("warning", f"'{each.path.name}' keeps the threads that it was proved with."))


def _load(named: Named, place: Place | None, settings: Settings, libraries: tuple[str, ...]) -> Load:
    if place is None:
        return Load(named.kind, named.what, {}, "")
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
        options["threads"] = _number(settings.threads)
    options, cores = chosen_cores(options)
    read_options(place.backend.options, options, place.backend.name)
    return Load(
        place.backend.name, str(place.model), options, "",
        custom_ops=libraries, strict=settings.strict, cores=cores, counters=settings.counters,
    )  # fmt: skip


def _number(threads: str) -> int | str:
    return int(threads) if threads.isdecimal() else threads


def _libraries(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"There is no library of custom operators at '{path}'.", "Check the path.")
    return tuple(str(Path(path).absolute()) for path in paths)


def _described(loads: list[Load], names: list[str], folder: Path) -> list[tuple[TensorInfo, ...] | None]:
    """What each side takes; None for a program, which does not say."""
    known: dict[str, tuple[TensorInfo, ...]] = {}
    for load, name in zip(loads, names, strict=True):
        # Backends and options do not change what a model takes.
        if load.backend != "command" and load.model_path not in known:
            known[load.model_path] = _inputs(load, name, folder)
    return [known.get(load.model_path) for load in loads]


def _inputs(load: Load, name: str, folder: Path) -> tuple[TensorInfo, ...]:
    """Asked of a trial, because loading a model may crash or never end."""
    with closing(LocalHost(folder).start()) as child:
        try:
            answer = ask(child, Describe(load.backend, load.model_path, load.custom_ops))
        except TrialError as error:
            raise ModelError(f"Loading '{name}' {error.message}.", "The file may be damaged.") from None
    if isinstance(answer, Failed):
        kind = _ERRORS.get(answer.code, ModelError)
        hint = answer.hint or "Check it with its own runtime."
        if kind is ModelError and load.backend not in {"url", "command"} and not load.custom_ops:
            hint = f"{hint.rstrip('.')}; operators of your own need their library: --custom-ops LIB"
        raise kind(answer.message, hint)
    if not isinstance(answer, Described):
        raise ModelError(reason(answer), "Check the file with its own runtime.")
    return answer.inputs


def _same_inputs(described: list[tuple[TensorInfo, ...] | None], names: list[str]) -> None:
    known = [(name, found) for name, found in zip(names, described, strict=True) if found is not None]
    for name, other in known[1:]:
        first_name, first = known[0]
        theirs = {tensor.name: tensor for tensor in other}
        odd = next((t for t in first if t.name in theirs and not _alike(t, theirs[t.name])), None)
        if {tensor.name for tensor in first} != set(theirs):
            said = f"{', '.join(tensor.name for tensor in first)} and {', '.join(theirs)}"
        elif odd is not None:
            said = f"'{odd.name}' is {_described_tensor(odd)} and {_described_tensor(theirs[odd.name])}"
        else:
            continue
        raise ModelError(
            f"'{first_name}' and '{name}' take different inputs: {said}.",
            "Only models with the same inputs can be measured against each other.",
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
