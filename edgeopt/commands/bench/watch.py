"""`edgeopt watch`: one side, run over and over until it is stopped."""

from edgeopt.commands.bench.naming import first_side, read_options
from edgeopt.commands.bench.request import WatchRequest
from edgeopt.commands.bench.sides import Settings, prepare
from edgeopt.commands.bench.strict import refuse_fallback
from edgeopt.errors import UsageError
from edgeopt.events import Emit
from edgeopt.measure.host import LocalHost
from edgeopt.measure.watch import WatchReport
from edgeopt.measure.watch import watch as watch_side
from edgeopt.workspace import workspace


def watch(request: WatchRequest, emit: Emit) -> WatchReport:
    """Runs a side over and over and tells how it fares; without `seconds`, until it is stopped."""
    named = first_side(request.subject, request.backend, read_options(list(request.options)))
    settings = Settings(request.data, request.custom_ops, request.strict, threads=request.threads)
    rate_per_s, seconds = request.rate_per_s, request.seconds
    for value, what in ((rate_per_s, "rate"), (seconds, "number of seconds")):
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{value} is not a {what}.", "Give a number above 0.")
    with workspace() as folder:
        prepared = prepare([named], settings, folder, emit)
        (side,) = prepared.sides
        if settings.strict:
            refuse_fallback([side], folder, emit)
        return watch_side(LocalHost(folder), side, rate_per_s, seconds, emit)
