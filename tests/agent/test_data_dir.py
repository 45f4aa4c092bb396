import os
import stat
import subprocess
import sys

import pytest

from edgeopt.errors import UsageError
from edgeopt_agent import settings
from edgeopt_agent.config import administered
from edgeopt_agent.data_dir import open_data_dir, point, pointed, sweep
from edgeopt_agent.settings import administered_data_dir, default_data_dir


def test_it_is_private_and_complete(tmp_path):
    with open_data_dir(tmp_path / "a" / "b") as data:
        folders = sorted(path.name for path in data.root.iterdir() if path.is_dir())
        assert folders == ["logs", "partial", "releases", "tokens", "trust"]
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in (data.root, *data.folders))


def test_a_second_agent_is_told_who_has_it(tmp_path):
    program = (
        "import sys; from pathlib import Path; from edgeopt_agent.data_dir import open_data_dir\n"
        "with open_data_dir(Path(sys.argv[1])): print('open', flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=-1, stdout=-1, env=environment
    ) as other:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(UsageError, match=f"in use by the agent with the process id {other.pid}"):
            open_data_dir(tmp_path).__enter__()
        other.kill()
    with open_data_dir(tmp_path):
        pass  # the lock goes with the process that held it


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        open_data_dir(tmp_path / "file" / "data").__enter__()


def test_links_lead_to_releases_that_are_there(tmp_path):
    with open_data_dir(tmp_path) as data:
        assert pointed(data.current) is None
        for name in ("one", "two"):
            data.release(name).mkdir()
            point(data.current, name)
            assert pointed(data.current) == name
        assert data.current.resolve() == data.release("two").resolve()
        data.release("two").rmdir()
        assert pointed(data.current) is None
        point(data.current, "one")
        point(data.current, None)
        assert not data.current.is_symlink()


def test_a_sweep_removes_only_what_is_named_as_garbage(tmp_path):
    with open_data_dir(tmp_path) as data:
        for name in ("kept", "left"):
            (data.release(name) / "model").mkdir(parents=True)
        (data.partial / "1.zip").touch()
        (data.partial / "deployment-1").mkdir()
        assert sweep(data, {"left", "gone long ago"}) == ["left"]
        assert [path.name for path in data.releases.iterdir()] == ["kept"]
        assert not list(data.partial.iterdir())


def test_a_folder_in_the_place_of_a_link_is_set_aside(tmp_path):
    with open_data_dir(tmp_path) as data:
        data.release("one").mkdir()
        data.current.mkdir()
        (data.current / "model").write_text("someone's")
        point(data.current, "one")
        assert pointed(data.current) == "one"
        assert (tmp_path / "current.damaged-1" / "model").read_text() == "someone's"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"STATE_DIRECTORY": "/var/lib/edgeopt", "XDG_STATE_HOME": "/x"}, "/var/lib/edgeopt"),
        ({"XDG_STATE_HOME": "/x"}, "/x/edgeopt"),
        ({"HOME": "/home/someone"}, "/home/someone/.local/state/edgeopt"),
    ],
)
def test_where_it_lies_without_being_told(monkeypatch, environment, expected):
    for name in ("STATE_DIRECTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(default_data_dir()) == expected


@pytest.mark.parametrize(
    ("user", "state_home", "expected"), [(0, "", "service"), (1000, "", "own"), (0, "elsewhere", "elsewhere")]
)
def test_root_acts_on_the_service_unless_told_otherwise(tmp_path, monkeypatch, user, state_home, expected):
    (tmp_path / "service").mkdir()
    monkeypatch.setattr(settings, "SERVICE_DATA_DIR", tmp_path / "service")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / state_home) if state_home else "")
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    assert administered_data_dir().relative_to(tmp_path).parts[0] == expected
    assert administered(None, {}).settings.data_dir == administered_data_dir()
