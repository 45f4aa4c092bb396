"""What `edgeopt replay` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option


class Order(msgspec.Struct, frozen=True):
    profile: Annotated[
        Path, argument("An exported profile, a deployment.toml, or a bundle.", metavar="PROFILE|BUNDLE")
    ]
    model: Annotated[Path, argument("The source model that it was made from.")]
    out: Annotated[Path, option("Where the bundle goes.", "-o", "--out", metavar="BUNDLE")]
    data: Annotated[Path | None, option("Samples for the golden ones of a lone profile, and for --measure.")] = (
        None
    )
    measure: Annotated[bool, option("Prove it anew on this device: speed and accuracy.")] = False
    single_file: Annotated[bool, option("Write the bundle as one file.")] = False
