"""What `edgeopt run`, `edgeopt verify` and `edgeopt sign` are asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.errors import UsageError
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
    batch: Annotated[
        int, option("Samples in one run; a model without a batch axis is refused.", metavar="N", least=1)
    ] = 1


class VerifyRequest(msgspec.Struct, frozen=True):
    bundle: Annotated[Path, argument("A bundle: a folder or a single file.")]
    trust: Annotated[
        tuple[Path, ...],
        option("A public key that must have signed it; several: any one of them.", metavar="PUB"),
    ] = ()
    model: Annotated[
        Path | None, option("The source model, to see whether it is still the one that the bundle was made from.")
    ] = None
    fail_on_stale: Annotated[bool, option("Leave with 6 where it is not proved for what is here now.")] = False
    require_faster: Annotated[
        bool, option("Leave with 6 unless it is proved faster than its source, on a device like this one.")
    ] = False


class SignRequest(msgspec.Struct, frozen=True):
    bundle: Annotated[Path | None, argument("A bundle: a folder or a single file.")] = None
    key: Annotated[Path | None, option("The private key to sign with.", metavar="K")] = None
    new_key: Annotated[
        Path | None, option("Make a key pair instead: PATH, and PATH.pub to give away.", metavar="PATH")
    ] = None
    sequence: Annotated[
        int | None,
        option(
            "Sequence number of the release; agents refuse lower ones. Seconds since 1970 by default.",
            metavar="N",
            least=1,
            most=10**15,
        ),
    ] = None


def what_to_sign(request: SignRequest) -> tuple[Path, Path]:
    """The bundle and the key; raises UsageError where one of them is missing."""
    if request.bundle is None or request.key is None:
        raise UsageError(
            "Signing needs a bundle and a key.",
            "Like this: edgeopt sign BUNDLE --key K; --new-key PATH makes one.",
        )
    return request.bundle, request.key


def only_a_key(request: SignRequest) -> None:
    """Raises UsageError for what making a key has no use for."""
    if request.bundle is not None or request.key is not None or request.sequence is not None:
        raise UsageError("--new-key only makes a key.", "Make it first, then sign: edgeopt sign BUNDLE --key PATH")
