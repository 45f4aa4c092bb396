"""What `edgeopt passes` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    name: Annotated[str | None, argument("Pass to explain (default: list all passes).", metavar="[PASS]")] = None
    rules: Annotated[
        tuple[Path, ...], option("File with your own rewrites to list too; repeatable.", metavar="FILE.py")
    ] = ()
