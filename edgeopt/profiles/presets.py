"""Presets: what a family of models wants of a search, as TOML files, and which family a model belongs to."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt import units
from edgeopt.backends.base import TensorInfo
from edgeopt.decoding import thread_safe
from edgeopt.errors import ProfileError, UsageError
from edgeopt.graph.analysis.layers import LAYERS
from edgeopt.nearest import nearest
from edgeopt.profiles.load import profiles_folder

FOLDER = "presets"
NONE = "none"
Kind = Literal["integer", "float"]
_PREFIXES: dict[Kind, tuple[str, ...]] = {"integer": ("int", "uint"), "float": ("float",)}
_Axes = Annotated[tuple[int, ...], msgspec.Meta(min_length=1)]


class InputPattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Kind
    dimensions: int
    every: bool = False
    """All inputs are so, not just one."""

    def fits(self, inputs: Sequence[TensorInfo]) -> bool:
        alike = [is_kind(each, self.kind, self.dimensions) for each in inputs]
        return all(alike) if self.every else any(alike)

    def __str__(self) -> str:
        which = "only " if self.every else ""
        return f"{which}{self.kind} inputs with {self.dimensions} dimensions"


class FamilyPattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to recognize a family; all of it must hold."""

    minimum: dict[str, int]
    """Minimum number of each kind of layer or operator."""
    maximum: dict[str, int] = {}
    inputs: InputPattern | None = None
    outputs: tuple[int, ...] = ()
    """Accepted numbers of dimensions of an output, which one output must have; empty: any."""
    without: tuple[str, ...] = ()
    """Words in no input's name."""

    def fits(self, counts: Mapping[str, int], inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> bool:
        return (
            all(counts.get(name, 0) >= minimum for name, minimum in self.minimum.items())
            and all(counts.get(name, 0) <= maximum for name, maximum in self.maximum.items())
            and (self.inputs is None or self.inputs.fits(inputs))
            and (not self.outputs or any(len(each.shape) in self.outputs for each in outputs))
            and not any(word in each.name.lower() for word in self.without for each in inputs)
        )

    def reason(self, counts: Mapping[str, int]) -> str:
        """Returns the features of the model that fit: `12 attention layers, no convolution`."""
        parts = [_counted(counts[name], name) for name in self.minimum]
        return ", ".join(parts + [f"no {name}" for name in self.maximum if not counts.get(name)])

    def __str__(self) -> str:
        minimum = [f"at least {_counted(number, name)}" for name, number in self.minimum.items()]
        maximum = [f"at most {_counted(k, name)}" if k else f"no {name}" for name, k in self.maximum.items()]
        without = [f"no input named {word}" for word in self.without]
        inputs = [str(self.inputs)] if self.inputs is not None else []
        outputs = [f"an output with {' or '.join(map(str, self.outputs))} dimensions"] if self.outputs else []
        return ", ".join([*minimum, *maximum, *inputs, *outputs, *without])


class OpenSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The usual size of dimensions that a model leaves open."""

    kind: Kind
    dimensions: int
    """The number of dimensions of the inputs that it is about."""
    axes: _Axes
    """Axes that must all be open."""
    size: Annotated[int, msgspec.Meta(ge=1, le=65536)]

    def __str__(self) -> str:
        axes = f"{'axes' if len(self.axes) > 1 else 'axis'} {' and '.join(map(str, self.axes))}"
        return f"{self.size} for {axes} of {self.kind} inputs with {self.dimensions} dimensions"


class Preset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1]
    name: str
    title: str
    rank: int
    """Rank of the preset; of those that fit a model, the one with the highest rank is chosen."""
    match: Annotated[tuple[FamilyPattern, ...], msgspec.Meta(min_length=1)]
    sizes: Annotated[tuple[OpenSize, ...], msgspec.Meta(min_length=1)]

    def choice(self, reason: str, inputs: Sequence[TensorInfo]) -> "PresetChoice":
        sizes = self.sizes_for(inputs)
        return PresetChoice(self.name, reason, sizes, "" if sizes else self._unset(inputs))

    def _unset(self, inputs: Sequence[TensorInfo]) -> str:
        """Returns why it sets no size of these inputs."""
        if all(isinstance(size, int) for info in inputs for size in info.shape):
            return "the model has fixed sizes"
        return f"the model leaves open none of its sizes ({'; '.join(map(str, self.sizes))})"

    def sizes_for(self, inputs: Sequence[TensorInfo]) -> dict[str, int]:
        """Returns sizes by the name of the dimension; empty for a model whose inputs have fixed sizes."""
        found: dict[str, int] = {}
        for info in inputs:
            for rule in self.sizes:
                names = [_open_name(info, axis) for axis in rule.axes if axis < len(info.shape)]
                if is_kind(info, rule.kind, rule.dimensions) and all(names):
                    found |= dict.fromkeys(names, rule.size)
        return found


class PresetChoice(msgspec.Struct, frozen=True):
    """The preset of a search."""

    name: str
    reason: str
    """Features of the model by which the preset was chosen."""
    sizes: dict[str, int] = {}
    """Sizes of open dimensions that the preset sets, for generated inputs."""
    unset: str = ""
    """Reason that the preset sets nothing."""
    named: bool = False
    """Whether the user named it."""

    @property
    def is_shown(self) -> bool:
        """Whether results name it: it sets something, or the user expects that."""
        return bool(self.sizes) or self.named

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        sets = f"generated inputs have {sizes}" if self.sizes else f"sets nothing: {self.unset}"
        return f"Preset {self.name}: {self.reason}; {sets}."


def is_kind(info: TensorInfo, kind: Kind, dimensions: int) -> bool:
    return info.dtype.startswith(_PREFIXES[kind]) and len(info.shape) == dimensions


@lru_cache(maxsize=1)
def shipped_presets() -> tuple[Preset, ...]:
    """Sorted by name."""
    return tuple(_read(path) for path in sorted((profiles_folder() / FOLDER).glob("*.toml")))


def check_preset(name: str | None) -> None:
    """Raises UsageError for a name that no preset has."""
    names = (*(each.name for each in shipped_presets()), NONE)
    if name is not None and name not in names:
        raise UsageError(f"There is no preset '{name}'.", nearest(name, names))


def choose_preset(
    name: str | None, counts: Mapping[str, int], inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]
) -> tuple[Preset, str] | None:
    """The named preset, else the one that fits the model, with the reason; None where none does or is wanted."""
    check_preset(name)
    if name is not None:
        return next(((each, "named by --preset") for each in shipped_presets() if each.name == name), None)
    for preset in sorted(shipped_presets(), key=lambda each: -each.rank):
        for pattern in preset.match:
            if pattern.fits(counts, inputs, outputs):
                return preset, pattern.reason(counts)
    return None


def _open_name(info: TensorInfo, axis: int) -> str:
    """Returns the name of an open dimension for `--shape`; empty for a fixed or computed one."""
    size = info.shape[axis]
    if isinstance(size, int) or (size and not size.isidentifier()):
        return ""
    return size or f"{info.name}.{axis}"


def _counted(number: int, name: str) -> str:
    """Layers have a plural, operators are names."""
    return units.count(number, name) if name in LAYERS else f"{number} {name}"


def _read(path: Path) -> Preset:
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), thread_safe(Preset))
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{path}: {error}.", "Install edgeopt again.") from error
