"""The ten steps of docs/lab.md, as typed there: this machine, a real SSH server and a real agent on loopback.

Only the addresses differ, the files have the names of the page, and a quick profile shortens the searches.
"""

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

from edgeopt.bundle.manifest import release_id
from tests.agent import conftest as agent_fixtures
from tests.remote import conftest as remote_fixtures

start_agent = agent_fixtures.start_agent
make_server, server = remote_fixtures.make_server, remote_fixtures.server

ROOT = Path(__file__).parents[2]


def page(addresses):
    """The texts of the steps, their commands, and the lab file, with the addresses of the page replaced."""
    text = (ROOT / "docs" / "lab.md").read_text()
    for written, real in addresses.items():
        assert written in text
        text = text.replace(written, real)
    listed = text.partition("## Ten steps")[2].partition("\n## ")[0]
    texts = re.findall(r"^\d+\. (.+)$", listed, re.MULTILINE)
    commands = [[shlex.split(each) for each in re.findall(r"`(edgeopt[ -][^`]+)`", step)] for step in texts]
    return texts, commands, re.search(r"```toml\n(.+?)```", listed, re.DOTALL)[1]


@pytest.fixture
def devices(start_agent, server, tmp_path, monkeypatch):
    """The data folder of the agent, and the real address for each one of the page."""
    monkeypatch.setenv("EDGEOPT_LOCK", str(tmp_path / "lock"))  # other tests measure on this machine too
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    agent = start_agent(trials=True, tls="on")
    url = f"https://127.0.0.1:{agent.port}"
    return agent.data_dir, {"ssh://pi@camera.local": server.address, "https://gateway.local:8080": url}


@pytest.fixture
def write_lab(relu_model, conv_model, quick_profile, tmp_path):
    """Writes the lab file with its models, and returns where the samples belong; they are not there yet."""

    def write(lab):
        names = tomllib.loads(lab)["models"]
        shutil.copy(conv_model, tmp_path / names["detector"]["file"])
        shutil.copy(relu_model, tmp_path / names["classifier"]["file"])
        assert lab.count("[options]\n") == 1
        quick = lab.replace("[options]\n", f"[options]\nprofile = '{quick_profile}'\n")
        (tmp_path / "lab.toml").write_text(quick)
        return tmp_path / names["detector"]["data"]

    return write


@pytest.mark.slow
@pytest.mark.timeout(900)  # three runs of a lab, with up to six searches each
def test_ten_steps(start, devices, write_lab, conv_data, tmp_path):
    data_dir, addresses = devices
    texts, commands, lab = page(addresses)
    assert len(texts) == 10
    _, (probing,), (coding, pairing, asking), _, _, (running,), (showing,), _, _, (deploying,) = commands

    def edgeopt(command, *more):
        module = command[0].replace("-", "_")
        return start(*command[1:], *more, module=module).finish(within_s=300)

    def cells(command):
        code, out, _ = edgeopt(command, "--json")
        found = json.loads(out.splitlines()[-1])["data"]["cells"]
        return code, {(each["model"], each["device"]): each for each in found}

    # 1: nothing can be installed in a test; the extras are those of the project.
    extras = re.search(r"\[([\w,]+)\]", texts[0])[1].split(",")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) <= set(declared)

    # 2 and 3: the code is typed as an option, because there is no terminal.
    assert edgeopt(probing)[0] == 0
    code, out, err = edgeopt(coding, "--data-dir", data_dir)
    assert code == 0, err
    paired = edgeopt(pairing, "--code", re.search(r"\w{4}-\w{4}-\w{4}", out)[0])
    assert paired[0] == 0, paired
    assert edgeopt(asking)[0] == 0

    # 4 and 5: the samples do not fit the model yet, so that something fails.
    limit = re.search(r"`(time_limit_s = \d+)`", texts[4])[1]

    assert lab.count(limit) == 1
    samples = write_lab(lab)
    np.savez(samples, x=np.ones((4, 2), np.float32))

    # 6 and 7
    code, found = cells(running)
    assert code == 4
    failed = {key for key, each in found.items() if each["status"] == "failed"}
    assert failed == {("detector", each) for each in ("desktop", "camera", "gateway")}, found
    code, out, _ = edgeopt(showing)
    assert code == 0
    for key in failed:
        assert found[key]["reason"][:40] in out
    shutil.copy(conv_data, samples)

    # 8
    code, found = cells(running)
    assert code == 0, found
    assert {key for key, each in found.items() if not each["kept"]} == failed

    # 9
    write_lab(lab.replace(limit, ""))
    code, found = cells(running)
    assert code == 0, found
    assert not any(each["kept"] for each in found.values())

    # 10
    report = (tmp_path / re.search(r"`(results/[\w.]+)`", texts[9])[1]).read_text()
    assert "6 of 6 cells complete" in report
    for each in found.values():
        assert edgeopt(["edgeopt", "verify"], tmp_path / "results" / each["bundle"])[0] == 0
    code, out, err = edgeopt(deploying)
    assert code == 0, out + err
    code, out, _ = edgeopt(["edgeopt", "fleet", "status"], *deploying[-2:], "--json")
    assert code == 0
    assert release_id(tmp_path / "results" / found["detector", "gateway"]["bundle"]) in out
