"""`edgeopt backends`: what can run models here, and what can be set on each."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt.errors import pip_install
from edgeopt.options import argument

if TYPE_CHECKING:
    from edgeopt.backends.base import Backend

Value = str | int | float | bool


class BackendsRequest(msgspec.Struct, frozen=True):
    name: Annotated[str | None, argument("Backend to show the options of (default: list all backends).")] = None


class BackendLine(msgspec.Struct, frozen=True):
    name: str
    title: str
    available: bool
    version: str | None
    reason: str
    """Reason why the backend is not available; empty if it is."""
    hint: str
    """Step that makes the backend available."""
    formats: tuple[str, ...]


class BackendList(msgspec.Struct, frozen=True):
    backends: tuple[BackendLine, ...]


class OptionLine(msgspec.Struct, frozen=True):
    name: str
    kind: str
    choices: tuple[str, ...]
    default: Value | None
    description: str
    search: tuple[Value, ...]


class OptionList(msgspec.Struct, frozen=True):
    backend: BackendLine
    options: tuple[OptionLine, ...]


def list_backends() -> BackendList:
    from edgeopt.backends import known_backends

    # The null backend computes nothing real: it is for tests.
    return BackendList(tuple(_line(backend) for backend in known_backends() if backend.package))


def list_options(name: str) -> OptionList:
    from edgeopt.backends import backend_named
    from edgeopt.backends.options import described

    backend = backend_named(name)
    lines = (msgspec.structs.asdict(option) for option in described(backend.options))
    return OptionList(_line(backend), tuple(OptionLine(**line) for line in lines))


def _line(backend: "Backend") -> BackendLine:
    from edgeopt.backends.base import Available

    found = backend.available()
    if isinstance(found, Available):
        return BackendLine(backend.name, backend.title, True, found.version, "", "", backend.formats)
    hint = pip_install(found.extra) if found.extra else ""
    return BackendLine(backend.name, backend.title, False, None, found.reason, hint, backend.formats)
