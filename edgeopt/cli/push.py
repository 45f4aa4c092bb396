"""`edgeopt push`: puts bundles into a registry."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.registry.request import PushRequest
from edgeopt.views.blocks import Block, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeopt.events import Emit
    from edgeopt.registry.push import PushedBundle


@asks(PushRequest)
def push(request: PushRequest, json: JsonFlag = False) -> None:
    """Push bundles to an OCI registry, where devices and other machines pull them.

    \b
    Each file is a layer, so only files that the registry does not have are sent. The login is that of
    `docker login`, in ~/.docker/config.json. Sign the bundle before you push it.

    \b
    After an interruption, the same command continues, also within a large file if the registry can.

    \b
    Several bundles are pushed as an index with one tag: each device takes the bundle that fits it.

    \b
    Examples:
      edgeopt push model.edgeopt oci://registry.example.com/models/detector:v1
      edgeopt push model.edgeopt oci://127.0.0.1:5000/detector:v1
      edgeopt push pi5.edgeopt orin.edgeopt oci://registry.example.com/models/detector:v1
      edgeopt push model.edgeopt oci://registry.lan:5000/detector:v1 --plain-http --json
    """

    def work(emit: "Emit") -> "PushedBundle":
        from edgeopt.registry.push import push

        return push(request, emit)

    execute("push", work, _show, json, "the tag is unchanged; run the same command again to continue")


def _show(result: "PushedBundle") -> "Sequence[Block]":
    sent = f"{result.sent_files} of {result.files} files were sent: {units.size(result.sent_bytes)}"
    entries = [f"  {each.target}: {each.bundle}, {each.digest}" for each in result.entries]
    return lines([f"Pushed {result.reference}", *entries, f"{sent} of {units.size(result.total_bytes)}."])
