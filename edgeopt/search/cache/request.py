"""What `edgeopt cache clear` is asked."""

from typing import Annotated

import msgspec

from edgeopt.options import option


class ClearRequest(msgspec.Struct, frozen=True):
    older_than: Annotated[
        float | None, option("Only what was not used for so many days.", metavar="DAYS", least=0)
    ] = None
    all: Annotated[bool, option("Also what other commands keep: peaks, operators, compiled engines.")] = False
