"""From what the user named to sides on the same inputs, for `edgeopt bench` and `edgeopt watch`."""

import filecmp
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.backends.intended import is_usable
from edgeopt.backends.options import read_options, side_of
from edgeopt.bundle.runtime.session import Place, locate
from edgeopt.commands.bench.describing import describe_all, narrowest
from edgeopt.commands.bench.inputs import Inputs, named_arrays, write_inputs
from edgeopt.commands.bench.naming import Named, side_names
from edgeopt.commands.bench.threads import chosen_cores
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Log, Progress
from edgeopt.measure.contender import Side
from edgeopt.measure.messages import Load

_IR = ".xml"
# The key under which a tensor of an ONNX file names the file with its values.
_EXTERNAL = b"location"


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every side."""

    data: Path | None = None
    custom_ops: tuple[str, ...] = ()
    strict: bool = False
    counters: bool = False
    threads: str | None = None
    """A number, or a word for cores; for sides that do not say it themselves."""
    load_timeout_s: float | None = None
    """How long a side may take to load; None: by its backend and size."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Sides ready to load, and the samples that all of them run on."""

    sides: list[Side]
    inputs: Inputs
    places: list[Place | None]
    """What the sides lie in: bundles that are single files stay unpacked as long as this is held."""


def prepare(named: list[Named], settings: Settings, folder: Path, emit: Emit) -> Prepared:
    """Checks every side as far as that goes without measuring; `folder` takes the samples."""
    libraries = _libraries(settings.custom_ops)
    for each in named:
        if each.kind == "bundle" and libraries:
            raise UsageError(
                f"The bundle '{each.path.name}' takes no custom operators: its manifest must cover all code "
                "it runs.",
                "Measure the model file with --custom-ops.",
            )
    if not any(each.kind in {"model", "bundle"} for each in named):
        for option, given in (("--custom-ops", libraries), ("--strict", settings.strict)):
            if given:
                raise UsageError(
                    f"{option} is for models, not for programs and served models.",
                    f"Leave {option} out.",
                )
    if settings.threads is not None:
        _tell_who_keeps_theirs(named, emit)
    names = side_names(named)
    places = [
        locate(each.path, each.backend, each.options) if each.kind in {"model", "bundle"} else None
        for each in named
    ]
    _tell_what_files_were_made_for(named, places, emit)
    loads = [_load(each, place, settings, libraries) for each, place in zip(named, places, strict=True)]
    emit(Progress("reading the model", names[0]))
    inputs = narrowest(describe_all(loads, names, folder, settings.load_timeout_s), names)
    if inputs is None and settings.data is not None:
        inputs = named_arrays(settings.data)
    written = write_inputs(named, places, inputs, settings.data, folder)
    sides = [
        Side(name, msgspec.structs.replace(load, samples_path=str(written.folder)), each.what, each.kind)
        for name, each, load in zip(names, named, loads, strict=True)
    ]
    first, *others = sides
    marked = [msgspec.structs.replace(each, same_as_first=_is_same(first, each)) for each in others]
    return Prepared([first, *marked], written, places)


def _is_same(one: Side, other: Side) -> bool:
    """Whether both run the same model in the same runtime with the same options."""
    mine, its = Path(one.load.model_path), Path(other.load.model_path)
    if _without_path(one.load) != _without_path(other.load) or not (mine.is_file() and its.is_file()):
        return False
    if mine.samefile(its):
        return True
    files = [(mine, its)]
    if mine.suffix == _IR and its.suffix == _IR:
        files.append((mine.with_suffix(".bin"), its.with_suffix(".bin")))
    elif _EXTERNAL in mine.read_bytes():  # the weights are in files of other names
        return False
    return all(a.is_file() and b.is_file() and filecmp.cmp(a, b, shallow=False) for a, b in files)


def _without_path(load: Load) -> Load:
    return msgspec.structs.replace(load, model_path="")


def _tell_who_keeps_theirs(named: list[Named], emit: Emit) -> None:
    """`--threads` is for models; a bundle has what it was proved with."""
    if not any(each.kind == "model" for each in named):
        raise UsageError(
            "--threads is for models; bundles, programs and served models set their own.",
            "Leave it out, or name the model file.",
        )
    for each in named:
        if each.kind == "bundle":
            emit(Log("warning", f"'{each.path.name}' keeps the threads it was proved with."))


def _tell_what_files_were_made_for(named: list[Named], places: list[Place | None], emit: Emit) -> None:
    """Warns of each file that runs otherwise than it was made for."""
    for each, place in zip(named, places, strict=True):
        made = each.made_for
        if made is None or each.is_as_made or place is None:
            continue
        how, here = side_of(made.backend, made.options), place.backend.name
        missing = "" if is_usable(made.backend) else f" ({made.backend} is not available)"
        emit(Log("warning", f"'{each.path.name}' was made for {how}; this side runs on {here}{missing}."))


def _load(named: Named, place: Place | None, settings: Settings, libraries: tuple[str, ...]) -> Load:
    if place is None:
        load = Load(named.kind, named.what, {}, "")
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
