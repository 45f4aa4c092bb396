"""What `edgeopt compare` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option


class Request(msgspec.Struct, frozen=True):
    first: Annotated[Path, argument("A model or bundle: the reference.", metavar="A")]
    second: Annotated[Path, argument("What is held against it.", metavar="B")]
    data: Annotated[Path | None, option("Samples to run; made up where there are none.", metavar="DATA")] = None
    backend: Annotated[str | None, option("What runs both of them.", metavar="NAME")] = None
    backend_a: Annotated[str | None, option("What runs A.", metavar="NAME")] = None
    backend_b: Annotated[str | None, option("What runs B.", metavar="NAME")] = None
    layers: Annotated[
        bool | None,
        option("Look for the first layer that differs [where an output does].", "--layers/--no-layers"),
    ] = None
    html: Annotated[
        Path | None, option("Write both graphs, with what changed, as one HTML file.", metavar="FILE")
    ] = None
    floor_db: Annotated[float, option("Outputs above this ratio count as equal.", "--floor", metavar="DB")] = 80.0
