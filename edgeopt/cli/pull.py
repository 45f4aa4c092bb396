"""`edgeopt pull`: gets a bundle from a registry."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.registry.request import PullRequest
from edgeopt.views.blocks import Block, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeopt.events import Emit
    from edgeopt.registry.pull import PulledBundle


@asks(PullRequest)
def pull(request: PullRequest, json: JsonFlag = False) -> None:
    """Pull a bundle from an OCI registry.

    \b
    All digests are checked before the bundle takes its place. After a broken connection or Ctrl-C,
    the same command continues where it stopped. Files that are equal in the bundle that is replaced
    are not transferred. The login is that of `docker login`, in ~/.docker/config.json. Of an index of
    several bundles, the one that was proved on a device like this machine is pulled.

    \b
    Examples:
      edgeopt pull oci://registry.example.com/models/detector:v1 -o detector.edgeopt
      edgeopt pull oci://127.0.0.1:5000/detector -o detector.edgeopt --single-file
      edgeopt pull oci://registry.example.com/models/detector:v1 -o pi5.edgeopt --target arm-dotprod
    """

    def work(emit: "Emit") -> "PulledBundle":
        from edgeopt.registry.pull import pull

        return pull(request, emit)

    left = f"what arrived is kept beside {request.out}, and the same command continues"
    execute("pull", work, _show, json, left)


def _show(result: "PulledBundle") -> "Sequence[Block]":
    received = f"{units.size(result.received_bytes)} of {units.size(result.total_bytes)} transferred"
    pulled = f"{result.bundle}: release {result.release}, {result.files} files, {received}."
    checked = "All digests match; edgeopt verify checks signature and outputs."
    return lines([f"Pulled {result.reference}", pulled, checked])
