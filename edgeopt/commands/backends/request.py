"""What `edgeopt backends` is asked."""

from typing import Annotated

import msgspec

from edgeopt.options import argument


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    name: Annotated[str | None, argument("A backend, for its options; without one, all are listed.")] = None
