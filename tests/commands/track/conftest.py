"""MLflow's client on a file store and a server where these are installed, and a recorder of its calls."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest

from tests.ports import free_port
from tests.processes import wait_listening

STORES = {}


class Entity(NamedTuple):
    key: str
    value: object
    timestamp: int = 0
    step: int = 0


class RecordedClient:
    """Keeps the runs that it is given; those of one address are shared, as on a server."""

    def __init__(self, uri):
        self.experiments = STORES.setdefault(uri, {})

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name) if name in self.experiments else None

    def create_experiment(self, name):
        self.experiments[name] = {}
        return name

    def search_runs(self, experiments, query="", max_results=1000):
        found = [run for name in experiments for run in self.experiments[name].values()]
        if query:
            found = [
                r for r in found if f"'{r.data.tags['edgeopt.record']}'" in query and r.info.status != "RUNNING"
            ]
        return found[:max_results]

    def create_run(self, experiment, start_time, tags, run_name):
        runs = self.experiments[experiment]
        info = SimpleNamespace(
            run_id=f"run-{len(runs)}",
            run_name=run_name,
            status="RUNNING",
            start_time=start_time or 1,
            end_time=None,
        )
        data = SimpleNamespace(tags=tags, params={}, metrics={})
        runs[info.run_id] = SimpleNamespace(info=info, data=data, files={})
        return runs[info.run_id]

    def log_batch(self, run_id, metrics, params):
        data = self._run(run_id).data
        data.metrics |= {each.key: each.value for each in metrics}
        data.params |= {each.key: each.value for each in params}

    def log_text(self, run_id, text, name):
        self._run(run_id).files[name] = text

    def set_terminated(self, run_id, status, end_time):
        info = self._run(run_id).info
        info.status, info.end_time = status, end_time
        if os.environ.get("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT") != "true":
            sys.stdout.write(f"🏃 View run {info.run_name}\n")  # as MLflow 3 does with a server

    def _run(self, run_id):
        return next(runs[run_id] for runs in self.experiments.values() if run_id in runs)


class Store:
    def __init__(self, uri, client, files_of):
        self.uri, self._client, self._files_of = uri, client, files_of

    def runs(self, experiment="edgeopt"):
        """The runs by name, with the texts of their files."""
        client = self._client(self.uri)
        found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
        return {run.info.run_name: (run.info, run.data, self._files_of(run)) for run in found}

    def statuses(self):
        """The status of each run, also of two of one name."""
        client = self._client(self.uri)
        found = client.search_runs([client.get_experiment_by_name("edgeopt").experiment_id])
        return sorted(run.info.status for run in found)


@pytest.fixture(scope="session")
def tracking_server(tmp_path_factory):
    """The address of a real server with a database, where all of MLflow is installed."""
    pytest.importorskip("mlflow.tracking", reason="mlflow-skinny, which is optional, is not installed")
    pytest.importorskip("flask", reason="mlflow, which has the server, is not installed")
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    places = [
        "--backend-store-uri",
        f"sqlite:///{folder}/db",
        "--artifacts-destination",
        str(folder / "artifacts"),
    ]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), *places]
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--workers", "1"], cwd=folder, stdout=out, stderr=out, start_new_session=True
        )
    wait_listening(process, port, log, 120.0)
    yield f"http://127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(params=["recorded", "mlflow", "server"])
def store(request, monkeypatch, tmp_path):
    """A tracking store: calls of the client, a real file store, and a real server."""
    monkeypatch.delenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", raising=False)
    if request.param == "recorded":
        STORES.clear()
        package, tracking, entities = (ModuleType(f"mlflow{each}") for each in ("", ".tracking", ".entities"))
        tracking.MlflowClient, entities.Metric, entities.Param = RecordedClient, Entity, Entity
        for each in (package, tracking, entities):
            monkeypatch.setitem(sys.modules, each.__name__, each)
        return Store("http://recorded", RecordedClient, lambda run: run.files)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    tracking = pytest.importorskip("mlflow.tracking", reason="mlflow-skinny, which is optional, is not installed")
    if request.param == "server":
        uri = request.getfixturevalue("tracking_server")
        client = tracking.MlflowClient(uri)
        for each in client.search_experiments():  # renamed: a deleted one keeps its name
            if each.name != "Default":
                client.rename_experiment(each.experiment_id, f"{each.name} before {tmp_path}")

        def texts_of(run):
            folder = tmp_path / "artifacts" / run.info.run_id
            folder.mkdir(parents=True, exist_ok=True)
            client.download_artifacts(run.info.run_id, "", str(folder))
            return {each.name: each.read_text() for each in folder.iterdir() if each.is_file()}

        return Store(uri, tracking.MlflowClient, texts_of)

    def files_of(run):
        folder = Path(run.info.artifact_uri.removeprefix("file://"))
        return {each.name: each.read_text() for each in folder.iterdir()} if folder.is_dir() else {}

    return Store(str(tmp_path / "mlruns"), tracking.MlflowClient, files_of)
