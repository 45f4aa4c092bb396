"""What `edgeopt backends` is asked."""

from typing import Annotated

import msgspec

from edgeopt.options import argument


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    name: Annotated[str | None, argument("Backend to show the options of (default: list all backends).")] = None
