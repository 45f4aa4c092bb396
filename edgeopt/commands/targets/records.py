"""What `edgeopt targets` and its commands answer."""

import msgspec

from edgeopt.profiles import explain
from edgeopt.profiles.targets import Verdict


class Use(msgspec.Struct, frozen=True):
    """A profile for a use: it extends whatever target fits."""

    name: str
    title: str


class TargetList(msgspec.Struct, frozen=True):
    chosen: str
    """The most exact target that fits the device."""
    used: str
    """What a search follows: the same, or the best that this version of edgeopt has a backend for."""
    targets: tuple[Verdict, ...]
    uses: tuple[Use, ...] = ()


class Shown(msgspec.Struct, frozen=True):
    name: str
    title: str
    path: str
    extends: tuple[str, ...]
    """What it extends, what that extends, and so on."""
    automatic: bool
    """One of those is whatever target fits the device."""
    fits: bool
    reason: str
    lacking_backend: str | None
    """The backend that it is about, where this version of edgeopt does not have it."""
    values: tuple[explain.Row, ...]


class Validated(msgspec.Struct, frozen=True):
    path: str
    name: str
    extends: tuple[str, ...]
    fits: bool
    reason: str
    lacking_backend: str | None
    left_out: tuple[str, ...]
    """Backends and variants that this version of edgeopt knows by name only."""


class Written(msgspec.Struct, frozen=True):
    path: str
    name: str
    extends: str
