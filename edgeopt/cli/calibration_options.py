"""The options that `edgeopt quantize` and `compare-calibrations` share."""

from typing import Annotated

import typer

ProfileOption = Annotated[
    str, typer.Option(metavar="PROFILE", help="A target profile by name or file [that of this device].")
]
SamplesOption = Annotated[
    int | None, typer.Option(metavar="N", help="At most so many calibrate [half of them, up to 100].")
]
AugmentOption = Annotated[
    str, typer.Option(metavar="WHAT", help="Calibrate with changed samples too: noise=0.01, scaling=0.1.")
]
