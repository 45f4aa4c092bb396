"""The ten steps of docs/lab.md, with two devices that are cores of this machine."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

from edgeopt.platform.processes import usable_cores

ROOT = Path(__file__).parents[2]
CORES = sorted(usable_cores() or ())
DEVICES = """
[[device]]
name = "first"
cores = [{first}]
share_host = true

[[device]]
name = "second"
cores = [{second}]
share_host = true
"""
MODELS = """
[models.relu]
file = '{relu}'

[models.conv]
file = '{conv}'
data = 'samples.npz'
"""
OPTIONS = "\n[options]\nprofile = '{profile}'\n"


def steps():
    """The commands of each step, without their first word."""
    page = (ROOT / "docs" / "lab.md").read_text()
    listed = page.partition("## Ten steps")[2].partition("\n## ")[0]
    texts = re.findall(r"^\d+\. (.+)$", listed, re.MULTILINE)
    return texts, [[shlex.split(each)[1:] for each in re.findall(r"`(edgeopt [^`]+)`", text)] for text in texts]


@pytest.mark.slow
@pytest.mark.timeout(900)  # three runs of a lab, with up to four searches each
@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_ten_steps(start, relu_model, conv_model, conv_data, quick_profile, tmp_path):
    texts, (_, probing, _, _, _, running, showing, *_) = steps()
    assert len(texts) == 10

    def edgeopt(*command):
        return start(*command).finish(within_s=300)

    # 1: nothing can be installed in a test; the extras are those of the project.
    extras = re.search(r"\[([\w,]+)\]", texts[0])[1].split(",")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) <= set(declared)

    # 2: both devices are this machine, so there is no --on.
    probe = probing[0][: probing[0].index("--on")]
    assert edgeopt(*probe)[0] == 0

    # 3 to 5: samples.npz does not fit the model yet, so that something fails.
    assert "time_limit_s = 10" in texts[4]
    lab = DEVICES.format(first=CORES[0], second=CORES[1]) + MODELS.format(relu=relu_model, conv=conv_model)
    lab += OPTIONS.format(profile=quick_profile)
    np.savez(tmp_path / "samples.npz", x=np.ones((4, 2), np.float32))
    (tmp_path / "lab.toml").write_text(f"{lab}time_limit_s = 1\n")

    def cells(*command):
        code, out, _ = edgeopt(*command, "--json")
        found = json.loads(out.splitlines()[-1])["data"]["cells"]
        return code, {(each["model"], each["device"]): each for each in found}

    # 6 and 7
    code, found = cells(*running[0])
    assert code == 4
    failed = {key for key, each in found.items() if each["status"] == "failed"}
    assert failed == {("conv", "first"), ("conv", "second")}
    code, out, _ = edgeopt(*showing[0])
    assert code == 0
    assert found["conv", "first"]["reason"][:40] in out
    (tmp_path / "samples.npz").write_bytes(conv_data.read_bytes())

    # 8
    code, found = cells(*running[0])
    assert code == 0
    assert {key for key, each in found.items() if not each["kept"]} == failed

    # 9
    (tmp_path / "lab.toml").write_text(lab)
    code, found = cells(*running[0])
    assert code == 0
    assert not any(each["kept"] for each in found.values())

    # 10
    report = (tmp_path / re.search(r"`(results/[\w.]+)`", texts[9])[1]).read_text()
    assert "4 of 4 cells complete" in report
    for each in found.values():
        assert edgeopt("verify", tmp_path / "results" / each["bundle"])[0] == 0
