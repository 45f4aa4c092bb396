"""`edgeopt probe`: what this device is, or another one that was recorded."""

from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.commands.probe.request import Request

if TYPE_CHECKING:
    from edgeopt.commands.documents.blocks import Block
    from edgeopt.events import Emit
    from edgeopt.hw.device import Device


@asks(Request)
def probe(request: Request, json: JsonFlag = False) -> None:
    """Shows what this device is, and whether it is in a state worth measuring.

    \b
    Serial numbers, host names and network addresses are neither in the record nor in a recording.

    \b
    Examples:
      edgeopt probe
      edgeopt probe --explain                where each fact comes from
      edgeopt probe --json > device.json     the whole record
      edgeopt probe --device device.json     read it elsewhere
      edgeopt probe --record machine         all that was read, so that it can be probed again
      edgeopt probe --root machine
      edgeopt probe --deep                   what its runtimes and its memory reach, measured
    """

    def work(emit: "Emit") -> "Device":
        from edgeopt.commands.probe.probe import probe

        return probe(request, emit)

    def show(device: "Device") -> "list[Block]":
        from edgeopt.cli import probe_show

        return probe_show.show(device, request.explain)

    execute("probe", work, show, json)
