"""What `edgeopt passes` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    name: Annotated[str | None, argument("Tell how this one works.", metavar="[PASS]")] = None
    rules: Annotated[
        tuple[Path, ...], option("List rewrites of your own too (repeatable).", metavar="FILE.py")
    ] = ()
