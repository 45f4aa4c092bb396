"""Request of `edgeopt cache clear`."""

from typing import Annotated

import msgspec

from edgeopt.options import option


class ClearRequest(msgspec.Struct, frozen=True):
    older_than: Annotated[
        float | None, option("Drop only entries unused for this many days.", metavar="DAYS", minimum=0)
    ] = None
    all: Annotated[bool, option("Also drop measured peaks, operator timings and compiled engines.")] = False
