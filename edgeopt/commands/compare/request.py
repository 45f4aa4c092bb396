"""Request of `edgeopt compare`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.bundle.request import PicturesFile
from edgeopt.options import argument, option


class ModelCompareRequest(msgspec.Struct, frozen=True):
    first: Annotated[Path, argument("Model or bundle that is the reference.", metavar="A")]
    second: Annotated[Path, argument("Model or bundle to compare with it.", metavar="B")]
    data: Annotated[Path | None, option("Samples to run (default: generated).", metavar="DATA")] = None
    pre: PicturesFile = None
    backend: Annotated[str | None, option("Backend that runs both models.", metavar="NAME")] = None
    backend_a: Annotated[str | None, option("Backend that runs A.", metavar="NAME")] = None
    backend_b: Annotated[str | None, option("Backend that runs B.", metavar="NAME")] = None
    layers: Annotated[
        bool | None,
        option("Search for the first layer that differs (default: if an output differs).", "--layers/--no-layers"),
    ] = None
    html: Annotated[
        Path | None, option("HTML file to write, with both graphs and their differences.", metavar="FILE")
    ] = None
    floor_db: Annotated[
        float | None,
        option(
            "Accuracy floor, in dB: outputs above it count as equal (default: the floor of the compared bundle, "
            "of B before A; otherwise 80).",
            "--floor",
            metavar="DB",
        ),
    ] = None
