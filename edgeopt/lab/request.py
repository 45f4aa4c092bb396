"""Options of `edgeopt lab`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option


class LabRunRequest(msgspec.Struct, frozen=True):
    lab: Annotated[
        Path, argument("TOML file with the devices of the lab, and its models and options.", metavar="LAB.toml")
    ]
    models: Annotated[
        tuple[str, ...],
        argument(
            "Models to search for: ONNX files, or names of [models] in the file (default: all of these).",
            metavar="[MODEL]...",
        ),
    ] = ()
    out: Annotated[
        Path, option("Folder of the results; an earlier run there is continued.", "-o", "--out", metavar="RESULTS")
    ] = Path("results")
    against: Annotated[
        Path | None,
        option(
            "Earlier results: measure each new bundle against the one there, interleaved on the same device.",
            metavar="RESULTS",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        option("Address of a running Dask scheduler (default: one in this process).", metavar="tcp://HOST:PORT"),
    ] = None
    fresh: Annotated[
        bool,
        option("Search again for every cell, or keep finished cells (default).", "--fresh/--resume"),
    ] = False


class LabShowRequest(msgspec.Struct, frozen=True):
    results: Annotated[Path, argument("Folder of results, or its results.json.", metavar="RESULTS")]
