"""Every kind of source with its real framework, from one command over a bundle to an agent that serves it."""

import json
import shutil
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import edgeopt
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.views.imports import import_sentence
from edgeopt.views.originals import original_speed
from tests.importing.test_frameworks import NETWORKS, fitted
from tests.importing.test_huggingface import MODELS as HUGGING_FACE
from tests.importing.test_tensorflow import MODELS as TENSORFLOW
from tests.importing.test_tensorflow import tensorflow  # noqa: F401 - a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TRUSTED = {"trust": True}
IMAGE = {"shape": ("image=1x3x8x8",), "dynamic": "batch"}
SOURCES = (
    ("torch module", "networks.py:Net", "torch", IMAGE),
    (".pt2", "program.pt2", "torch", {}),
    ("TorchScript", "script.pt", "torch", {"shape": ("input=1x3x8x8",), "dynamic": "batch"}),
    ("BERT", "bert", "huggingface", {}),
    ("ViT", "vit", "huggingface", {}),
    ("SegFormer", "segformer", "huggingface", {}),
    ("Whisper encoder", "whisper", "huggingface", {"task": "encoder"}),
    ("Keras", "two.keras", "tensorflow", {}),
    ("SavedModel", "saved", "tensorflow", {}),
    ("TFLite", "plain.tflite", "tensorflow", {}),
    ("forest", "forest.joblib", "sklearn", TRUSTED),
    ("pipeline with scaler", "pipeline.pkl", "sklearn", TRUSTED),
    ("boosted trees", "boosted.joblib", "sklearn", TRUSTED),
)
OUT = Path("out.edgeopt")
SCRIPTS = {"torch": NETWORKS, "huggingface": HUGGING_FACE, "tensorflow": TENSORFLOW}
TYPES = {"float32": "FP32", "float64": "FP64", "int32": "INT32", "int64": "INT64"}


@pytest.fixture(scope="module")
def written():
    """The folder with the models of each framework."""
    return {}


@pytest.fixture
def files(written, tmp_path_factory, tmp_path, monkeypatch):
    """Puts the models of a framework into the folder of the test."""
    monkeypatch.chdir(tmp_path)

    def put(framework, python):
        if framework not in written:
            folder = tmp_path_factory.mktemp(framework)
            shutil.copy(NETWORKS, folder)
            if framework == "sklearn":
                fitted(python, folder)
            else:
                command = [python, "-W", "ignore", SCRIPTS[framework], framework]
                subprocess.run(command, cwd=folder, check=True)
            written[framework] = folder
        shutil.copytree(written[framework], tmp_path, dirs_exist_ok=True)

    return put


@pytest.fixture(scope="module")
def agent_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    options = ["--data-dir", str(folder), "--port", "0", "--soak-seconds", "0", "--soak-requests", "0"]
    command = [sys.executable, "-m", "edgeopt_agent.main", "run", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    yield next(word for word in line.split() if word.startswith("http://")).rstrip(",.")
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize(
    ("source", "framework", "given"), [row for _, *row in SOURCES], ids=[r for r, *_ in SOURCES]
)
def test_source_is_proved_optimized_loaded_and_served(request, files, agent_url, source, framework, given):
    python = request.getfixturevalue("tensorflow" if framework == "tensorflow" else "frameworks")
    files(framework, python)
    outcome = edgeopt.optimize(source, OUT, python=python, time_limit_s=10, **given)
    proof, original = outcome.imported, outcome.original
    assert proof.snr_db >= 90
    assert proof.outputs.get("label", EQUAL_DB) == EQUAL_DB
    assert original.original_ms > 0
    assert all(each.snr_db >= outcome.floor_db for each in original.run.agreements)
    said = (import_sentence(proof), original_speed(original), outcome.summary)
    sys.stdout.write("\n".join(said))  # shown by `pytest -rP`
    feeds = {name: array[0] for name, array in np.load(search_samples(OUT)).items()}
    with edgeopt.load(OUT) as session:
        wanted = session.run(feeds)
    Agent(agent_url, timeout_s=60.0).deploy(OUT, lambda _: None, DeployOptions(rename=True))
    served = infer(agent_url, feeds)
    assert served.keys() == wanted.keys()
    for name, array in wanted.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(served[name], array.ravel(), rtol=1e-3, atol=1e-5)
        else:
            assert served[name] == array.ravel().tolist()


def search_samples(out):
    return out.with_name(f"{out.stem}.imported.npz")


def infer(url, feeds):
    """The outputs of the model that the agent serves, as flat lists."""
    ready = [each["name"] for each in ask(url, "/v2/repository/index", {}) if each["state"] == "READY"]
    # With a processor in the bundle, the model without it has a name of its own.
    model = next((name for name in ready if name.endswith(".raw")), ready[0])
    inputs = [
        {"name": name, "datatype": TYPES[array.dtype.name], "shape": array.shape, "data": array.ravel().tolist()}
        for name, array in feeds.items()
    ]
    answer = ask(url, f"/v2/models/{model}/infer", {"inputs": inputs})
    return {each["name"]: each["data"] for each in answer["outputs"]}


def ask(url, path, document):
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
        connection.request("POST", path, json.dumps(document))
        answer = connection.getresponse()
        found = json.load(answer)
    assert answer.status == 200, found
    return found
