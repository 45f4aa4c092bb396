"""The deployment profile (`deployment.toml`): what runs, how it was made, and what was proved of it."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.errors import BundleError

SCHEMA = 1
FILE = "deployment.toml"
SUFFIX = ".edgeopt"
"""Of a bundle, by which what is not there or broken is still known for one."""
_LARGEST_BYTES = 4 << 20
_HINT = "Restore the bundle from where it came."


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """People write or read these, and later they are signed: an unknown key is an error."""


class Source(_Strict, frozen=True):
    name: str
    sha256: str
    size_bytes: int


class Tensor(_Strict, frozen=True):
    name: str
    dtype: str
    shape: list[int | str]
    """A size, the name of a dynamic dimension, or "?"."""


class Run(_Strict, frozen=True):
    backend: str
    model: str
    """The model file, within the bundle."""
    options: dict[str, str | int | float | bool | dict[str, list[int]]] = {}


class Step(_Strict, frozen=True):
    recipe: str
    parameters: dict[str, str | int | float | bool | list[str]] = {}


class Evidence(_Strict, frozen=True):
    verdict: str
    baseline: str
    baseline_ms: float
    latency_ms: float
    speedup: float
    speedup_low: float
    speedup_high: float
    rounds: int
    accuracy_db: float
    floor_db: float
    samples: int


class Deployment(_Strict, frozen=True):
    name: str
    created: str
    edgeopt: str
    target: str
    summary: str
    source: Source
    run: Run
    inputs: list[Tensor]
    outputs: list[Tensor]
    steps: list[Step] = []
    device: dict[str, str] = {}
    """The fingerprint of the device that it was proved on, by named parts."""
    runtimes: dict[str, str] = {}
    evidence: Evidence | None = None
    schema: int = SCHEMA


def to_toml(deployment: Deployment) -> str:
    """The deployment as text; written by hand nowhere, read by people often."""
    import tomli_w

    plain: dict[str, Any] = {"schema": deployment.schema, **msgspec.to_builtins(deployment)}
    head = "# edgeopt deployment profile: what runs, how it was made, what was proved. See docs/bundles.md.\n\n"
    return head + tomli_w.dumps(plain)


def read_deployment(path: Path) -> Deployment:
    """The deployment in a file; raises BundleError naming the key that is wrong."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:  # whoever sent it must not fill the memory with it
            raise BundleError(f"{path} is too large for a deployment profile.", _HINT)
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
        found = msgspec.convert(plain, Deployment)
    except FileNotFoundError:
        raise BundleError(f"'{path.parent}' has no {FILE}.", "It is not a bundle, or it is damaged.") from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}.", _HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BundleError(f"{path} is not readable TOML: {error}.", _HINT) from None
    except msgspec.ValidationError as error:
        raise BundleError(f"{path}: {error}.", "docs/bundles.md lists every key.") from None
    if found.schema != SCHEMA:
        raise BundleError(
            f"{path} has schema {found.schema}; this edgeopt reads schema {SCHEMA}.",
            "Use the edgeopt that wrote it.",
        )
    return found
