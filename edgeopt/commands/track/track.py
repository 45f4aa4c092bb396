"""`edgeopt track`: logs the results of earlier commands to MLflow, each one once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from edgeopt.commands.track.request import TrackRequest
from edgeopt.commands.track.runs import RunRecord, runs_in
from edgeopt.errors import MissingError, MissingExtraError, UsageError, error_text
from edgeopt.events import Emit, Progress
from edgeopt.version import __version__

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_MAX_PARAM, _MAX_TAG = 500, 5000
"""Longest values, in characters, that all versions of MLflow's server store."""
_DIGEST = "edgeopt.record"
_FILE_STORE = "MLFLOW_ALLOW_FILE_STORE"
_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # edgeopt reports nothing about its users
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # with a server, it prints between the lines of --json
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",  # with the default of 7, a wrong address is an error after minutes
}


class TrackedRun(msgspec.Struct, frozen=True):
    name: str
    kind: str
    run_id: str
    new: bool
    """Whether it was logged now; otherwise the experiment had it already."""


class TrackedRuns(msgspec.Struct, frozen=True):
    """Runs of an experiment of MLflow."""

    uri: str
    experiment: str
    experiment_id: str
    runs: tuple[TrackedRun, ...]


def track(request: TrackRequest, emit: Emit) -> TrackedRuns:
    """Logs the records; raises MissingError if the tracking server does not take them."""
    if not request.to.strip():
        raise UsageError("--to is empty.", "Write the address of the server: --to http://HOST:PORT")
    runs = [run for path in request.records for run in runs_in(path)]
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise MissingExtraError("track", "Logging to MLflow") from None
    with _mlflow_errors(request.to):
        client = MlflowClient(request.to)
        experiment = client.get_experiment_by_name(request.experiment)
        place = experiment.experiment_id if experiment else client.create_experiment(request.experiment)
        tracked = []
        for number, run in enumerate(runs):
            emit(Progress("logging runs", run.name, number, len(runs)))
            known = client.search_runs(
                [place], f"tags.`{_DIGEST}` = '{run.digest}' and attributes.status != 'RUNNING'", max_results=1
            )
            run_id = known[0].info.run_id if known else _log(client, place, run)
            tracked.append(TrackedRun(run.name, run.kind, run_id, not known))
    return TrackedRuns(request.to, request.experiment, place, tuple(tracked))


def _log(client: "MlflowClient", experiment: str, run: RunRecord) -> str:
    from mlflow.entities import Metric, Param

    tags = {
        **run.tags,
        "edgeopt.kind": run.kind,
        "edgeopt.logged_by": __version__,
        _DIGEST: run.digest,
    }
    begin = None if run.begin_s is None else round(1000 * run.begin_s)
    end = None if run.end_s is None else round(1000 * run.end_s)
    shortened = {name: _shortened(value, _MAX_TAG) for name, value in tags.items()}
    made = client.create_run(experiment, begin, shortened, run.name)
    run_id: str = made.info.run_id
    at = end or begin or made.info.start_time
    client.log_batch(
        run_id,
        [Metric(name, value, at, 0) for name, value in run.metrics.items()],
        [Param(name, _shortened(value, _MAX_PARAM)) for name, value in run.params.items()],
    )
    for name, text in run.files.items():
        client.log_text(run_id, text, name)
    # Last: a run that is still RUNNING is incomplete, and logged again.
    client.set_terminated(run_id, "FAILED" if run.failed else "FINISHED", end or begin)
    return run_id


def _shortened(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


@contextmanager
def _mlflow_errors(uri: str) -> Iterator[None]:
    """Raises MissingError with MLflow's own message."""
    try:
        yield
    except Exception as error:
        if not any(each.__module__.startswith(("mlflow", "requests")) for each in type(error).__mro__):
            raise
        text = error_text(error)
        end = "" if text.endswith(".") else "."
        hint = (
            f"Set {_FILE_STORE}=true, or log to a server: mlflow server, then --to http://127.0.0.1:5000"
            if _FILE_STORE in str(error)
            else "Check the address, and that the server runs. A database needs a server: mlflow server."
        )
        raise MissingError(f"MLflow does not take runs at '{uri}': {text}{end}", hint) from None
