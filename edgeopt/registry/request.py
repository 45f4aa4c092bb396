"""Options of `edgeopt push` and `edgeopt pull`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.bundle.request import SingleFile
from edgeopt.options import argument, option

PlainHttp = Annotated[bool, option("Use HTTP without TLS; registries on this device always do.")]


class PushRequest(msgspec.Struct, frozen=True):
    bundles: Annotated[
        tuple[Path, ...],
        argument(
            "Bundle to push, a folder or a single file; several become an index for different devices.",
            metavar="BUNDLE...",
        ),
    ]
    to: Annotated[str, argument("Where to push it.", metavar="oci://HOST/REPOSITORY:TAG")]
    plain_http: PlainHttp = False


class PullRequest(msgspec.Struct, frozen=True):
    from_: Annotated[str, argument("Bundle to pull.", metavar="oci://HOST/REPOSITORY[:TAG|@sha256:…]")]
    out: Annotated[Path, option("Bundle to write.", "-o", "--out", metavar="BUNDLE")]
    single_file: SingleFile = False
    target: Annotated[
        str,
        option("Target of the bundle to pull from an index (default: the one for this machine).", metavar="NAME"),
    ] = ""
    plain_http: PlainHttp = False
