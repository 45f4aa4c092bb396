import psutil
import pytest

from edgeopt_agent.releases import release_id


def ended_process(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def hook(agent):
    """Writes the hook of the agent that serves the old bundle."""

    def write(*lines, mode=0o700):
        file = agent.data_dir / "hooks" / "before-commit"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(("#!/bin/sh", *lines, "")))
        file.chmod(mode)
        return file

    return write


def test_a_hook_that_agrees_sees_the_release_and_its_soak(agent, hook, old_bundle, new_bundle, tmp_path):
    hook(f"env > '{tmp_path}/seen'", 'test -f "$EDGEOPT_RELEASE_DIR/deployment.toml"')
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines() if "=" in line)
    assert seen["EDGEOPT_RELEASE"] == release_id(new_bundle)
    assert seen["EDGEOPT_PREVIOUS"] == release_id(old_bundle)
    assert seen["EDGEOPT_NAME"] == "null"
    assert int(seen["EDGEOPT_SOAK_REQUESTS"]) >= 3
    assert seen["EDGEOPT_SOAK_ERRORS"] == "0"
    assert float(seen["EDGEOPT_SOAK_SECONDS"]) >= 0.1


@pytest.mark.parametrize(
    ("lines", "mode", "reason"),
    [
        (("echo checking", "echo the camera sees nothing >&2", "exit 3"), 0o700, "the camera sees nothing"),
        (("exit 3",), 0o700, "ended with exit code 3"),
        ((), 0o600, "is not executable"),
        ((), 0o722, "Others may write"),
    ],
)
def test_a_hook_that_does_not_agree_rolls_back_with_its_last_line(
    agent, hook, old_bundle, new_bundle, lines, mode, reason
):
    file = hook(*lines, mode=mode)
    ended = agent.deploy(new_bundle)
    assert ended["state"] == "ROLLED_BACK"
    assert reason in ended["reason"]
    agent.serves(old_bundle)
    file.unlink()
    assert agent.deploy(new_bundle)["state"] == "COMMITTED", "it was the hook's no, not the bundle's fault"


def test_a_hook_does_not_stand_in_the_way_back(agent, hook, old_bundle, new_bundle):
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    hook("exit 1")
    assert agent.roll_back()["state"] == "COMMITTED"
    agent.serves(old_bundle)


def test_a_hook_that_takes_too_long_is_ended_with_all_that_it_started(
    start_agent, old_bundle, new_bundle, tmp_path
):
    agent = start_agent(hook_timeout_s=0.5)
    assert agent.deploy(old_bundle)["state"] == "COMMITTED"
    file = agent.data_dir / "hooks" / "before-commit"
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\nsleep 600 & echo $! > '{tmp_path}/pid'\nwait\n")
    file.chmod(0o700)
    ended = agent.deploy(new_bundle)
    assert ended["state"] == "ROLLED_BACK"
    assert "took longer than 0.5 s" in ended["reason"]
    agent.serves(old_bundle)
    left = int((tmp_path / "pid").read_text())
    agent.until(lambda: ended_process(left), "the end of what the hook started")


def test_cancelling_ends_the_hook(agent, hook, old_bundle, new_bundle, tmp_path):
    hook(f"touch '{tmp_path}/started'", "sleep 600")
    _, _, answer = agent.send(new_bundle)
    agent.until((tmp_path / "started").exists, "the hook")
    assert agent.ask("POST", "/api/v1/cancel")[0] == 202
    assert agent.ended(answer["deployment"]["id"])["state"] == "ROLLED_BACK"
    agent.serves(old_bundle)
