"""An image that is built as root, with the service installed, before its first start."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.bundle.sign import new_key
from edgeopt.fleet.address import Address
from edgeopt.fleet.client import Agent
from tests.agent.conftest import DEADLINE_S

UNIT = Path(__file__).parents[2] / "packaging" / "edgeopt-agent.service"
UNITS = Path("/etc/systemd/system")
USER = 4321
ROOT = os.geteuid() == 0


@pytest.fixture
def inside(tmp_path):
    """Begins a command as root, with a `/var/lib` and units of its own, and the user that the package makes."""
    lib, units = tmp_path / "lib", tmp_path / "units"
    mounts = {lib: "/var/lib", units: UNITS}
    for folder in mounts:
        folder.mkdir()
    if ROOT:  # in a namespace of a user, files can belong to nobody else
        for name, line in (
            ("passwd", f"edgeopt-agent:x:{USER}:{USER}::/:/"),
            ("group", f"edgeopt-agent:x:{USER}:"),
        ):
            (tmp_path / name).write_text(f"{Path('/etc', name).read_text()}{line}\n")
            mounts[tmp_path / name] = f"/etc/{name}"
    binds = [shlex.join(["mount", "--bind", str(ours), str(place)]) for ours, place in mounts.items()]
    namespace = ["unshare", "--mount", *([] if ROOT else ["--map-root-user"])]
    if (
        shutil.which("unshare") is None
        or not UNITS.is_dir()
        or subprocess.run(
            [*namespace, "sh", "-ec", "; ".join([*binds, shlex.join([sys.executable, "-c", ""])])],
            capture_output=True,
            check=False,
        ).returncode
    ):
        pytest.skip("This user may not mount folders in a namespace.")

    def begin(*command, **variables):
        known = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        home = {"HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        words = shlex.join([sys.executable, "-m", "edgeopt_agent.main", *map(str, command)])
        return subprocess.Popen(
            [*namespace, "sh", "-ec", "; ".join([*binds, f"exec {words}"])],
            env={**known, **home, **variables}, stdout=-1, stderr=-1, text=True,
        )  # fmt: skip

    return begin


def done(process):
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, err
    return out


def test_keys_and_tokens_of_an_image_are_the_service_s_at_its_first_start(inside, tmp_path):
    new_key(tmp_path / "key")
    shutil.copy(UNIT, tmp_path / "units")
    assert "Trusted in /var/lib/edgeopt" in done(inside("trust", "add", tmp_path / "key.pub"))
    token = json.loads(done(inside("token", "add", "operator", "--role", "deploy", "--json")))["data"]["token"]
    data = tmp_path / "lib/edgeopt"
    owner = USER if ROOT else os.getuid()
    for path in (data, *data.rglob("*")):
        found = path.stat()
        assert (found.st_uid, found.st_mode & 0o077) == (owner, 0), path
    assert not (tmp_path / "home").exists()
    agent = inside("run", "--json", "--port", "0", STATE_DIRECTORY="/var/lib/edgeopt")
    try:
        live = json.loads(agent.stdout.readline())
        asked = Agent(Address("127.0.0.1", int(live["message"].rpartition(":")[2]), token))
        assert asked.status().trust == "signed"
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.communicate(timeout=DEADLINE_S)


def test_without_a_service_the_folder_is_the_user_s_own(inside, tmp_path):
    new_key(tmp_path / "key")
    said = done(inside("trust", "add", tmp_path / "key.pub"))
    assert f"Trusted in {tmp_path}/home/.local/state/edgeopt" in " ".join(said.split())
