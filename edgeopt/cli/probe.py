"""`edgeopt probe`: what this device is, or another one that was recorded."""

from functools import partial
from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, OnDevice, asks, execute
from edgeopt.commands.probe import ProbeRequest

if TYPE_CHECKING:
    from edgeopt.events import Emit
    from edgeopt.hw.device import Device


@asks(ProbeRequest)
def probe(request: ProbeRequest, on: OnDevice = None, json: JsonFlag = False) -> None:
    """Show what this device is, and whether its state allows reliable measurements.

    \b
    The output of --json and the folder of --record contain no serial numbers and no network
    addresses. They contain no host name either, unless --identify is given.

    \b
    Examples:
      edgeopt probe
      edgeopt probe --deep                   measure peak speed of runtimes and memory
      edgeopt probe --json > device.json     complete record, read with --device
      edgeopt probe --on ssh://pi@camera     another device, over SSH
      edgeopt probe --record machine         save the machine's facts, read with --root
    """

    from edgeopt.views.device import show

    def work(emit: "Emit") -> "Device":
        if on is not None:
            from edgeopt.commands.on_device import probe_on

            return probe_on(on, request, emit)
        from edgeopt.commands.probe import probe

        return probe(request, emit)

    execute("probe", work, partial(show, explain=request.explain), json)
