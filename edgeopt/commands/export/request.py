"""What `edgeopt export` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    bundle: Annotated[Path | None, argument("A bundle, as written by `edgeopt optimize`.")] = None
    to: Annotated[str, option("The form; --list shows all.", metavar="FORMAT")] = ""
    out: Annotated[Path | None, option("The folder to write.", "-o", "--out", metavar="DIR")] = None
    max_batch_size: Annotated[
        int | None,
        option("For a server: the most samples in one run; 0: one request at a time.", metavar="N", least=0),
    ] = None
    list: Annotated[bool, option("The formats, a line each.")] = False
