"""Request of `edgeopt export`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option


class ExportRequest(msgspec.Struct, frozen=True):
    bundle: Annotated[Path | None, argument("Bundle written by `edgeopt optimize`.")] = None
    to: Annotated[str, option("Format to write; see --list.", metavar="FORMAT")] = ""
    out: Annotated[Path | None, option("Folder to write.", "-o", "--out", metavar="DIR")] = None
    max_batch_size: Annotated[
        int | None,
        option("Maximum samples per run of a server; 0 serves one request at a time.", metavar="N", minimum=0),
    ] = None
    list: Annotated[bool, option("List the formats.")] = False
