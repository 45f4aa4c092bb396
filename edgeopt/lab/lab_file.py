"""The file of a lab: its devices, models and options, read strictly."""

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from edgeopt.bundle.toml import read_toml
from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError, UsageError
from edgeopt.graph.model import digest_of
from edgeopt.keywords import read
from edgeopt.nearest import nearest
from edgeopt.options import arguments, options_of
from edgeopt.pipeline.cache.store import tree_digest
from edgeopt.pipeline.request import OptimizeRequest, check
from edgeopt.platform.processes import can_pin, usable_cores
from edgeopt.remote.address import SshAddress, read_address
from edgeopt.remote.files import files_beside

HoldBack = Literal["avx2", "avx512", "avx512-vnni", "avx512-bf16", "amx"]
# The newest instruction set that oneDNN, inside OpenVINO, may still use without the one that is held back.
# https://uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html
_MAX_ISA: dict[HoldBack, str] = {
    "avx2": "AVX",
    "avx512": "AVX2",
    "avx512-vnni": "AVX512_CORE",
    "avx512-bf16": "AVX512_CORE_VNNI",
    "amx": "AVX512_CORE_FP16",
}
OptionValue = str | int | float | bool | list[str]
_OWN_OPTIONS = frozenset({"model", "out", "data", "pick", "fresh", "single_file"})
"""Options of a search that the lab sets itself."""
_PATHS = frozenset({"pre", "post", "baseline", "profile", "metric"})
"""Options that may name a file, which is then relative to the lab file."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PERCENT = re.compile(r"\d+(\.\d+)? ?%")
THIS_HOST = "this machine"
_LOOPBACK = re.compile(r"localhost|127(\.\d+){1,3}|\[?::1\]?")


class LabDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    on: str = ""
    """Address as `--on` takes it; empty: this machine."""
    cores: tuple[int, ...] = ()
    """Logical cores of this machine that its cells may use; empty: all."""
    hold_back: HoldBack | None = None
    """Instruction set of this machine that OpenVINO does not use, nor any newer one."""
    share_host: bool = False
    """Whether to measure beside other devices of this machine that say so too and have other cores."""

    @property
    def host(self) -> str:
        """Returns the host that the address names; `THIS_HOST` for loopback addresses and this machine's name."""
        if not self.on:
            return THIS_HOST
        address = read_address(self.on)
        named = address.destination.rpartition("@")[2] if isinstance(address, SshAddress) else address.address.host
        host = named.lower()
        own = platform.node().lower()
        is_own = bool(own) and host in {own, own.partition(".")[0], f"{own}.local"}
        return THIS_HOST if is_own or _LOOPBACK.fullmatch(host) else host

    @property
    def environment(self) -> dict[str, str]:
        return {} if self.hold_back is None else {"ONEDNN_MAX_CPU_ISA": _MAX_ISA[self.hold_back]}


class LabModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    data: str = ""
    floor: str = ""
    options: dict[str, OptionValue] = {}


class LabFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: tuple[LabDevice, ...]
    models: dict[str, LabModel] = {}
    options: dict[str, OptionValue] = {}
    max_slowdown: str = "3%"
    """Largest slowdown that `--against` accepts."""


class ModelSearch(msgspec.Struct, frozen=True):
    """A model with the options of its searches."""

    name: str
    file: Path
    data: Path | None
    options: dict[str, OptionValue]

    @property
    def option_words(self) -> tuple[str, ...]:
        return arguments(OptimizeRequest, self.options)

    def arguments(self, out: Path) -> tuple[str, ...]:
        """Returns the arguments of `edgeopt optimize`."""
        files = {"model": self.file, "out": out, "data": self.data}
        return (*arguments(OptimizeRequest, files), *self.option_words)

    def digests(self) -> tuple[str, str]:
        """Returns the digests of the model with its external data, and of its samples; raises EdgeoptError."""
        try:
            for path in (self.file, self.data):
                if path is not None and not path.exists():
                    raise InputError(f"There is no '{path}'.", "Check the path in the lab file.")
            data = "" if self.data is None else tree_digest(self.data)
            return digest_of((self.file, *files_beside(self.file))), data
        except OSError as error:
            place = error.filename or self.file
            raise InputError(f"'{place}' cannot be read: {error.strerror}.", "Check the file.") from None


def read_lab_file(path: Path) -> LabFile:
    """Reads and checks the file; raises InputError that names what is wrong."""
    try:
        lab = msgspec.convert(read_toml(path.read_text(encoding="utf-8")), thread_safe(LabFile))
    except FileNotFoundError:
        raise InputError(f"There is no file '{path}'.", "Write one: docs/lab.md has an example.") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}.", _suggestion(str(error))) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}.", "Correct the file: docs/lab.md has an example.") from None
    if not lab.device:
        raise InputError(f"{path}: there is no [[device]].", "Add one with a name.")
    if not _PERCENT.fullmatch(lab.max_slowdown):
        raise InputError(f"{path}: max_slowdown must be a percentage, not '{lab.max_slowdown}'.", 'Such as "3%".')
    for name in (*(each.name for each in lab.device), *lab.models):
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{path}: '{name}' cannot be the name of a file.", "Use letters, digits, dots and hyphens."
            )
    names = [each.name for each in lab.device]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise InputError(f"{path}: two devices have the name '{min(doubled)}'.", "Rename one of them.")
    for device in lab.device:
        _check_device(device, path)
    for device in lab.device:
        others = {core for each in lab.device if each is not device and each.share_host for core in each.cores}
        if device.share_host and (both := others & {*device.cores}):
            raise InputError(
                f"{path}: '{device.name}' shares core {min(both)} with another device that has share_host.",
                "Give each of them cores of its own, or leave out share_host.",
            )
    return lab


def _suggestion(problem: str) -> str:
    """Returns the hint for a message such as "Object contains unknown field `core` - at `$.device[0]`"."""
    if key := re.search(r"unknown field `(.+?)`(?: - at `\$\.(\w+))?", problem):
        tables: dict[str, type[msgspec.Struct]] = {"device": LabDevice, "models": LabModel}
        return nearest(key[1], tables.get(key[2], LabFile).__struct_fields__)
    if value := re.search(r"enum value '(.*)' - at .*hold_back`", problem):
        return nearest(value[1], _MAX_ISA)
    return (
        "Write a list: cores = [0, 1]" if ".cores" in problem else "Correct the file: docs/lab.md has an example."
    )


def _check_device(device: LabDevice, path: Path) -> None:
    if device.on:
        for key in ("cores", "hold_back", "share_host"):
            if getattr(device, key):
                raise InputError(
                    f"{path}: '{device.name}' is another machine, and {key} is for this one.", f"Leave {key} out."
                )
        try:
            read_address(device.on)
        except UsageError as error:
            raise InputError(f"{path}: {device.name}: {error.message}", error.hint) from None
    if device.share_host and not device.cores:
        raise InputError(f"{path}: share_host of '{device.name}' needs cores.", "Add its cores: cores = [0]")
    if device.cores and not can_pin():
        raise InputError(f"{path}: this system cannot keep processes to cores.", "Leave cores out.")
    usable = usable_cores()
    if usable is not None and (missing := {*device.cores} - usable):
        raise InputError(
            f"{path}: '{device.name}' names core {min(missing)}, which this process cannot use.",
            f"It can use: {', '.join(map(str, sorted(usable)))}.",
        )


def lanes(devices: Sequence[LabDevice]) -> tuple[tuple[str, ...], ...]:
    """Groups devices by name: those of one group never measure at the same time, those of different groups may.

    Devices of one host are a group, except those that have `share_host` while all of that host have it.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for device in devices:
        apart = all(each.share_host for each in devices if each.host == device.host)
        found.setdefault((device.host, device.name if apart else ""), []).append(device.name)
    return tuple(tuple(names) for names in found.values())


def model_searches(lab: LabFile, path: Path, models: Sequence[str]) -> tuple[ModelSearch, ...]:
    """Returns the models to search for: those that the command line names, or else all of the file."""
    if repeated := {given for given in models if models.count(given) > 1}:
        raise UsageError(f"'{min(repeated)}' is named more than once.", "Name each model once.")
    chosen = []
    for given in models or tuple(lab.models):
        entry = lab.models.get(given)
        if entry is None and not Path(given).is_file():
            hint = nearest(given, tuple(lab.models)) if lab.models else "Check the path."
            raise UsageError(f"'{given}' is neither a file nor one of [models].", hint)
        chosen.append(_search(Path(given).stem if entry is None else given, entry or LabModel(given), lab, path))
    if not chosen:
        raise UsageError("No models to search for.", f"Name them: edgeopt lab run {path} MODEL.onnx")
    names = [each.name for each in chosen]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"Two models have the name '{min(doubled)}'.", f"Name them in [models] of {path}.")
    return tuple(chosen)


def _search(name: str, entry: LabModel, lab: LabFile, path: Path) -> ModelSearch:
    # Files of the command line are relative to the working folder, those of the lab file to its own.
    folder = path.absolute().parent if name in lab.models else Path.cwd()
    options = {**lab.options, **entry.options, **({"floor": entry.floor} if entry.floor else {})}
    options = {key: _placed(value, path) if key in _PATHS else value for key, value in options.items()}
    _check_options(options, name, path)
    return ModelSearch(name, folder / entry.file, folder / entry.data if entry.data else None, options)


def _placed(value: OptionValue, path: Path) -> str:
    """Returns the value with the path of a file beside the lab file made absolute; `FILE.py:FUNCTION` too."""
    file, colon, function = str(value).partition(":")
    place = path.absolute().parent / file
    return f"{place}{colon}{function}" if place.is_file() or place.is_dir() else str(value)


def _check_options(options: Mapping[str, OptionValue], model: str, path: Path) -> None:
    allowed = tuple(each.name for each in options_of(OptimizeRequest) if each.name not in _OWN_OPTIONS)
    for key in options:
        if key not in allowed:
            raise InputError(
                f"{path}: '{key}' is not an option of the searches of a lab.",
                nearest(key, allowed, "Options are named as in Python: floor, objective, time_limit_s."),
            )
    try:
        check(read(OptimizeRequest, {**options, "model": "model.onnx", "out": "model.edgeopt"}))
    except UsageError as error:
        raise InputError(f"{path}: model '{model}': {error.message}", error.hint) from None
