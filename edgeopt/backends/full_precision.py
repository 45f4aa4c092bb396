"""Options that make a runtime compute floats in the model's own precision, if its default is another.

A reference must be computed like this: one in fewer bits would pass candidates in fewer bits, and fail
better ones.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from edgeopt.backends.base import Backend, Options, Session

# OpenVINO computes floats in bf16 by itself where the processor has it.
_TOLD: Mapping[str, Mapping[str, str]] = MappingProxyType({"openvino-cpu": {"precision": "f32"}})


def full_precision(backend: str) -> dict[str, str]:
    """The options that it takes; empty for a runtime that does so by itself."""
    return dict(_TOLD.get(backend, {}))


def in_full_precision(backend: Backend) -> Backend:
    """The same backend, whose sessions compute so unless their options say otherwise."""
    told = full_precision(backend.name)
    if not told:
        return backend

    def load(path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()) -> Session:
        return backend.load(path, {**told, **options}, strict=strict, custom_ops=custom_ops)

    return replace(backend, load=load)
