"""What `edgeopt run` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option

Libraries = Annotated[tuple[str, ...], option("A library of custom operators; repeatable.", metavar="LIB")]


class RunRequest(msgspec.Struct, frozen=True):
    subject: Annotated[Path, argument("What to run.", metavar="BUNDLE|MODEL")]
    data: Annotated[Path, option("Samples: an .npz or a folder of .npy.")]
    out: Annotated[Path, option("The folder for the outputs.", "-o", "--out")]
    strict: Annotated[bool, option("Refuse a model of which a part falls back.")] = False
    custom_ops: Libraries = ()
    process: Annotated[
        bool, option("With what the bundle does before and after its model; the data is raw then.")
    ] = False
