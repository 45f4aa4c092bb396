"""`edgeopt sign`: vouches for a bundle with a key, and makes keys."""

from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.bundle.request import SignRequest, only_a_key, what_to_sign
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.platform.command_line import quote_word
from edgeopt.views.blocks import Block, Listed, WordsBlock

if TYPE_CHECKING:
    from edgeopt.bundle.sign import NewKey, Signed
    from edgeopt.events import Emit


@asks(SignRequest)
def sign(request: SignRequest, json: JsonFlag = False) -> None:
    """Sign a bundle with an ed25519 key, for devices that trust the key.

    \b
    The signature is manifest.sig.json in the bundle and replaces an older one; a single-file bundle
    is replaced atomically. Keep the private key; give devices the public one with `edgeopt-agent
    trust add PATH.pub`.

    \b
    The signature holds a sequence number, the time by default. An agent refuses a bundle whose
    number is lower than the highest one it has served, which prevents downgrades.

    \b
    Examples:
      edgeopt sign --new-key release-key
      edgeopt sign model.edgeopt --key release-key
      edgeopt sign model.edgeopt --key release-key --sequence 42
    """
    path = request.new_key
    if path is not None:
        execute("new-key", lambda _emit: _new_key(request, path), show_key, json)
    else:
        execute("sign", lambda emit: _sign(request, emit), show, json, "the bundle is unchanged")


def _sign(request: SignRequest, emit: "Emit") -> "Signed":
    from edgeopt.bundle.sign import sign_bundle
    from edgeopt.events import Progress

    bundle, key = what_to_sign(request)
    emit(Progress("checking digests", bundle.name))
    return sign_bundle(bundle, key, request.sequence)


def _new_key(request: SignRequest, path: Path) -> "NewKey":
    from edgeopt.bundle.sign import new_key

    only_a_key(request)
    return new_key(path)


def show(result: "Signed") -> list[Block]:
    return [WordsBlock(f"{result.bundle} is signed by the key {result.key_id}, sequence {result.sequence}.")]


def show_key(result: "NewKey") -> list[Block]:
    public = quote_word(Path(result.public_key_file).name)
    return [
        WordsBlock(f"New key {result.key_id}"),
        Listed(
            (
                f"private: {result.private_key_file}  (keep it secret; only its file mode protects it)",
                f"public:  {result.public_key_file}  (on each device: edgeopt-agent trust add {public})",
            )
        ),
    ]
