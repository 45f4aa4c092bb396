"""What `edgeopt demo` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import option


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    out: Annotated[Path, option("Bundle to write.", "-o", "--out")] = Path("demo.edgeopt")
