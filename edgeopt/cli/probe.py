"""`edgeopt probe`: what this device is, or another one that was recorded."""

from functools import partial

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.probe import ProbeRequest


@asks(ProbeRequest)
def probe(request: ProbeRequest, json: JsonFlag = False) -> None:
    """Show what this device is, and whether its state allows reliable measurements.

    \b
    The output of --json and the folder of --record contain no serial numbers and no network
    addresses. They contain no host name either, unless --identify is given.

    \b
    Examples:
      edgeopt probe
      edgeopt probe --explain                source of each fact
      edgeopt probe --deep                   measure peak speed of runtimes and memory
      edgeopt probe --json > device.json     complete record, read with --device
      edgeopt probe --record machine         save the machine's facts, read with --root
    """

    from edgeopt.commands.probe import probe
    from edgeopt.views.device import show

    execute("probe", lambda emit: probe(request, emit), partial(show, explain=request.explain), json)
