"""`edgeopt track`: logs results to MLflow."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.track.request import TrackRequest
from edgeopt.views.blocks import Block, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeopt.commands.track.track import TrackedRuns
    from edgeopt.events import Emit


@asks(TrackRequest)
def track(request: TrackRequest, json: JsonFlag = False) -> None:
    """Log searches, benches, quantizations and labs to MLflow.

    \b
    Each bundle, each cell of a lab and each comparison of a bench is a run. Its record is a file of
    the run. A record that the experiment has already is not logged again.

    \b
    Examples:
      edgeopt track model.edgeopt --to http://mlflow.lan:5000
      edgeopt track results --to http://mlflow.lan:5000 --experiment nightly
      edgeopt bench new.edgeopt --against old.edgeopt --json | edgeopt track - --to http://mlflow:5000
    """

    def work(emit: "Emit") -> "TrackedRuns":
        from edgeopt.commands.track.track import track

        return track(request, emit)

    execute("track", work, _show, json, "runs that were logged stay, and the same command logs the others")


def _show(result: "TrackedRuns") -> "Sequence[Block]":
    rows = (f"{each.run_id}  {each.name}{'' if each.new else ' (logged before)'}" for each in result.runs)
    new = sum(each.new for each in result.runs)
    runs = units.count(len(result.runs), "run")
    return lines([*rows, f"{new} of {runs} logged to '{result.experiment}' at {result.uri}."])
