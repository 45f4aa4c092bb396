"""Request of `edgeopt ops`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import argument, option


class OpsRequest(msgspec.Struct, frozen=True):
    model: Annotated[
        Path | None, argument("Model whose operators to test (default: all operators).", metavar="[MODEL]")
    ] = None
    backend: Annotated[
        tuple[str, ...], option("Backend to test; repeatable (default: all available).", metavar="NAME")
    ] = ()
    only: Annotated[str, option("Operators to test, such as Conv,MatMul.", metavar="OP,OP")] = ""
    quick: Annotated[bool, option("Test small shapes only.")] = False
    again: Annotated[bool, option("Repeat earlier measurements.")] = False


def operators(request: OpsRequest) -> tuple[str, ...]:
    """Returns the operators that the request names; raises UsageError if it names a model too."""
    if request.model is not None and request.only:
        raise UsageError("MODEL and --only exclude each other.", "Give one of them.")
    return tuple(name.strip() for name in request.only.split(",") if name.strip())
