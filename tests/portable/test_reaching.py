"""Commands as on another system that start a framework's Python, or reach a Linux device."""

import contextlib
import json
import subprocess
import sys

import pytest

from edgeopt.bundle.read import read_bundle
from edgeopt.fleet.client import Agent
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt_agent import pairing
from tests import broker as brokers
from tests import registry_server
from tests.agent.conftest import Running
from tests.broker import Client
from tests.fleet.conftest import Started
from tests.portable.systems import SYSTEMS, opened
from tests.remote.server import BINARY, SshServer

mosquitto, broker = brokers.mosquitto, brokers.broker
FIT = """
import joblib, numpy as np
from sklearn.linear_model import LogisticRegression
x = np.random.default_rng(0).standard_normal((60, 4))
joblib.dump(LogisticRegression().fit(x, x[:, 0] > 0), "my estimator.joblib")
np.savez("estimated.npz", X=x)
"""
QUICK_ONES = [pytest.param("win32"), pytest.param("darwin", marks=pytest.mark.slow)]
SLOW_ONES = [pytest.param(system, marks=pytest.mark.slow) for system in SYSTEMS]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if BINARY is None:
        pytest.skip("No SSH server is installed: sh packaging/system-packages.sh tests")
    server = SshServer(tmp_path_factory.mktemp("ssh"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def session(request, tmp_path_factory, conv_model, conv_data, conv_bundle):
    folder = tmp_path_factory.mktemp(request.param)
    variables = {}
    if BINARY is not None:
        variables["EDGEOPT_SSH"] = request.getfixturevalue("server").client()
    with opened(request.param, folder, conv_model, conv_data, conv_bundle, variables) as session:
        yield session


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """A real agent on Linux, outside of the session."""
    started = Started(tmp_path_factory.mktemp("agent"))
    yield started
    started.kill()


@pytest.fixture
def start_running(tmp_path):
    """Starts agents with settings of their own, on Linux and outside of the session."""
    with contextlib.ExitStack() as stack:

        def start(name, **settings):
            running = Running(tmp_path / name, **settings)
            stack.callback(running.close)
            return running

        yield start


def last_record(answer):
    return json.loads(answer["printed"].splitlines()[-1])


@pytest.mark.parametrize("session", QUICK_ONES, indirect=True)
def test_a_model_of_scikit_learn_is_imported(session):
    pytest.importorskip("skl2onnx")
    subprocess.run([sys.executable, "-c", FIT], cwd=session.folder, check=True)
    arguments = ("my estimator.joblib", "--trust", "--data", "estimated.npz", "--samples", "8", "-o", "out.onnx")
    answer = session("import", *arguments, "--json")
    assert answer["code"] == 0, answer["printed"]
    assert last_record(answer)["data"]["framework"].startswith("scikit-learn")
    assert (session.folder / "out.onnx").exists()
    assert session.ended_children()


@pytest.mark.parametrize("session", QUICK_ONES, indirect=True)
def test_a_bundle_is_deployed_to_an_agent(session, agent):
    answer = session("fleet", "deploy", "BUNDLE", "--url", agent.url, "--force")
    assert answer["code"] == 0, answer["printed"]
    answer = session("fleet", "status", "--url", agent.url, "--json")
    assert answer["code"] == 0, answer["printed"]
    assert last_record(answer)["data"]["state"] == "serving"
    assert Agent(agent.url).status().serving is not None
    answer = session("fleet", "rollback", "--url", agent.url)
    assert answer["code"] != 0
    assert "Traceback" not in answer["printed"]


@pytest.mark.parametrize("session", QUICK_ONES, indirect=True)
def test_a_pairing_code_gives_access_to_an_agent(session, start_running):
    agent = start_running("paired", tls="on")
    url = f"https://127.0.0.1:{agent.port}"
    answer = session("fleet", "status", "--url", url)
    assert answer["code"] != 0
    code = pairing.new_code(agent.data_dir, "laptop", "deploy").code
    answer = session("fleet", "pair", "--url", url, "--code", code)
    assert answer["code"] == 0, answer["printed"]
    answer = session("fleet", "status", "--url", url, "--json")
    assert answer["code"] == 0, answer["printed"]
    assert last_record(answer)["data"]["state"] == "empty"


@pytest.mark.parametrize("session", QUICK_ONES, indirect=True)
def test_the_devices_of_a_broker_are_listed(session, broker, start_running):
    start_running("camera", mqtt={"url": broker.url, "device": session.system, "telemetry_s": 0})
    watching = Client(broker, Topics("default", session.system))
    try:
        watching.presence("online")
    finally:
        watching.close()
    answer = session("fleet", "devices", "--broker", broker.url, "--to", session.system, "--json")
    assert answer["code"] == 0, answer["printed"]
    (device,) = last_record(answer)["data"]["devices"]
    assert device["online"]


@pytest.mark.parametrize("session", SLOW_ONES, indirect=True)
def test_a_bundle_goes_to_a_registry_and_back(session, tmp_path):
    if registry_server.BINARY is None:
        pytest.skip("No registry is installed: sh packaging/system-packages.sh tests")
    registry = registry_server.RegistryServer(tmp_path)
    address = f"oci://{registry.host}/models/conv:v1"
    try:
        for arguments in (("push", "BUNDLE", address), ("pull", address, "-o", "pulled.edgeopt")):
            answer = session(*arguments)
            assert answer["code"] == 0, answer["printed"]
    finally:
        registry.stop()
    answer = session("verify", "pulled.edgeopt")
    assert answer["code"] == 0, answer["printed"]


@pytest.mark.parametrize("session", QUICK_ONES, indirect=True)
def test_a_device_is_probed_over_ssh(session, server):
    answer = session("probe", "--on", server.address, "--json")
    assert answer["code"] == 0, answer["printed"]
    assert last_record(answer)["data"]["host"]["os"] == "Linux"
    assert not (server.far_folder / "runs").exists()


@pytest.mark.parametrize("session", SLOW_ONES, indirect=True)
def test_a_search_on_a_device_over_ssh_brings_its_bundle_back(session, server):
    arguments = ("MODEL", "-o", "far.edgeopt", "--data", "DATA", "--profile", "p.toml", "--time-limit", "3")
    answer = session("optimize", *arguments, "--on", server.address)
    assert answer["code"] == 0, answer["printed"]
    assert read_bundle(session.folder / "far.edgeopt").deployment.source.name == "my model.onnx"
    assert not (server.far_folder / "runs").exists()
    assert session.ended_children()
