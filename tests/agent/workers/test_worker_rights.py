"""What native code of a model can do in a worker: the table in docs/agent.md, line by line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt_agent.workers.landlock import SCOPES_ABI, landlock_abi
from tests.agent.workers.attacker import attempts
from tests.packaging.test_service import UNIT, allowed_calls, has_seccomp, options

PAGE = Path(__file__).parents[3] / "docs/agent.md"
pytestmark = pytest.mark.skipif(
    landlock_abi() < SCOPES_ABI, reason="this kernel's Landlock knows no signals: some lines hold by other means"
)


def attacked(way, tmp_path, null_bundle, calls=()):
    folder = tmp_path / "agent"
    folder.mkdir()
    bundle = folder / "bundle"
    shutil.copytree(null_bundle(), bundle)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PAGE.parents[1]), *(p for p in sys.path if p)]),
    }
    command = [
        sys.executable,
        "-m",
        "tests.agent.workers.attacked",
        way,
        str(folder),
        str(bundle),
        json.dumps(calls),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", ["root", "user", "unit"])
def test_native_code_in_a_worker_can_do_what_the_table_says_and_no_more(way, tmp_path, null_bundle):
    """`unit` applies the bits of the systemd unit that need no systemd; hidden folders and `/proc` are not."""
    if way == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    calls = ()
    if way == "unit":
        if not (shutil.which("systemd-analyze") and has_seccomp()):
            pytest.skip("the unit's system calls are known by systemd-analyze and libseccomp, and one is missing")
        filters = options(UNIT)["Service"]["SystemCallFilter"]
        calls = sorted(allowed_calls(filters))
    found = attacked(way, tmp_path, null_bundle, calls)
    tried = found["tried"]
    assert {name: how for name, how in tried["refused"].items() if how not in ("EPERM", "EACCES")} == {}
    assert {name: how for name, how in tried["missing"].items() if how != "ENOSYS"} == {}
    assert {name: how for name, how in tried["allowed"].items() if how != "allowed"} == {}
    assert found["survived"]
    assert {name: how for name, (applied, how) in found["limits"].items() if not applied} == {}


def test_the_table_in_the_documentation_has_each_line_that_is_tried():
    refused, _, allowed = attempts(1, "", "", "")
    page = PAGE.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in page.split("## Worker limits")[1].split("\n## ")[0].splitlines()]
    documented = {row[0].removeprefix("| "): row[1].removesuffix(" |") for row in rows if len(row) == 2}
    documented.pop("a worker tries to", None)
    assert documented == dict.fromkeys(refused, "refused") | dict.fromkeys(allowed, "allowed")
