"""What `edgeopt ops` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import argument, option


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    model: Annotated[Path | None, argument("Try the operators of this model alone.", metavar="[MODEL]")] = None
    backend: Annotated[
        tuple[str, ...], option("Try this backend; may be given several times.", metavar="NAME")
    ] = ()
    only: Annotated[str, option("Try these operators alone: Conv,MatMul.", metavar="OP,OP")] = ""
    quick: Annotated[bool, option("Try small shapes alone.")] = False
    again: Annotated[bool, option("Measure anew what was measured before.")] = False


def operators(request: Request) -> tuple[str, ...]:
    """Those that it names; raises UsageError where the model names them already."""
    if request.model is not None and request.only:
        raise UsageError("MODEL already says which operators to try; --only does too.", "Give one of them.")
    return tuple(name.strip() for name in request.only.split(",") if name.strip())
