"""`edgeopt sign`: vouches for a bundle with a key, and makes keys."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.commands.documents.blocks import Block, Listed, Words
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    from edgeopt.bundle.sign import NewKey, Signed
    from edgeopt.events import Emit


def sign(
    bundle: Annotated[
        Path | None, typer.Argument(help="A bundle: a folder or a single file.", show_default=False)
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="K", help="The private key to sign with.")] = None,
    new_key: Annotated[
        Path | None,
        typer.Option(
            "--new-key", metavar="PATH", help="Make a key pair instead: PATH, and PATH.pub to give away."
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Sign a bundle with an ed25519 key, so that devices that trust the key take it.

    \b
    The signature is manifest.sig.json in the bundle; an older one is replaced. A bundle that is a
    single file is written anew and takes the old one's place in one step. The private key
    stays with you; devices get the public one: edgeopt-agent trust add PATH.pub

    \b
    Examples:
      edgeopt sign --new-key release-key
      edgeopt sign model.edgeopt --key release-key
    """
    if new_key is not None:
        path = new_key
        execute("new-key", lambda _emit: _new_key(bundle, key, path), show_key, json)
    else:
        execute("sign", lambda emit: _sign(bundle, key, emit), show, json, "the bundle is as it was")


def _sign(bundle: Path | None, key: Path | None, emit: "Emit") -> "Signed":
    from edgeopt.bundle.sign import sign_bundle
    from edgeopt.events import Progress

    if bundle is None or key is None:
        raise UsageError(
            "Signing needs a bundle and a key.",
            "Like this: edgeopt sign BUNDLE --key K; --new-key PATH makes one.",
        )
    emit(Progress("checking digests", bundle.name))
    return sign_bundle(bundle, key)


def _new_key(bundle: Path | None, key: Path | None, path: Path) -> "NewKey":
    from edgeopt.bundle.sign import new_key

    if bundle is not None or key is not None:
        raise UsageError("--new-key only makes a key.", "Make it first, then sign: edgeopt sign BUNDLE --key PATH")
    return new_key(path)


def show(result: "Signed") -> list[Block]:
    return [Words(f"{result.bundle} is signed by the key {result.key_id}.")]


def show_key(result: "NewKey") -> list[Block]:
    return [
        Words(f"New key {result.key_id}"),
        Listed(
            (
                f"private: {result.private_key_file}  (keep it; nothing protects it but its file mode)",
                f"public:  {result.public_key_file}  (on each device: edgeopt-agent trust add FILE)",
            )
        ),
    ]
