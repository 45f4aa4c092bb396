import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.errors import UsageError
from edgeopt.version import __version__
from edgeopt_agent import config as config_file
from edgeopt_agent import settings
from edgeopt_agent.config import ConfigError, administered, configured, reloaded
from edgeopt_agent.data_dir import open_data_dir, point, pointed, sweep
from edgeopt_agent.drift.settings import DriftSettings
from edgeopt_agent.main import COMMANDS, run
from edgeopt_agent.settings import Settings, administered_data_dir, default_data_dir


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The user's own configuration file with this text."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)

    def write(text):
        file = tmp_path / "edgeopt" / "agent.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    return write


def test_the_command_line_goes_before_the_file_and_the_file_before_defaults(config):
    file = config('# ours\nport = 9000\nsoak_s = 5\ndata_dir = "/srv/edgeopt"\n')
    found = configured(None, {"port": 9001, "host": None})
    assert (found.settings.port, found.settings.soak_s, found.settings.host) == (9001, 5.0, "127.0.0.1")
    assert found.settings.data_dir == Path("/srv/edgeopt")
    assert found.sources["port"] == "command line"
    assert found.sources["soak_s"] == f"{file}:3"
    assert found.sources["host"] == "default"


def test_without_a_file_all_is_as_ever(config):
    del config
    found = configured(None, {})
    assert found.file is None
    assert set(found.sources.values()) == {"default"}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("\nsoak_second = 5", "line 2: there is no setting 'soak_second'.", "Did you mean 'soak_s'?"),
        ('port = "x"', "line 1: 'port' is wrong: Expected `int`, got `str`.", "settings"),
        ("grpc_port = 70000", "line 1: 'grpc_port' is 70000; it must be from 0 to 65535.", "Correct"),
        ('fetch_from = "https://host/"', "'fetch_from' is wrong: Expected `array`, got `str`", "settings"),
        (
            'fetch_from = ["file:///srv/"]',
            "'fetch_from' has an entry that is no URL prefix: it must begin",
            "https",
        ),
        (
            'put_to = ["https://host/?a"]',
            "'put_to' has an entry that cannot be used: it is no URL prefix: a prefix has no",
            "https",
        ),
        (
            'put_to = ["http://127.0.0.1/", "http://host/"]',
            "'put_to' has an entry that cannot be used: it must begin with https://, except on loopback",
            "https",
        ),
        (
            'fetch_from = ["https://host/a/../"]',
            "'fetch_from' has an entry that is no URL prefix: its path",
            "https",
        ),
        ("port = true", "line 1: 'port' is wrong: Expected `int`, got `bool`.", "settings"),
        ("port = 70000", "'port' is 70000; it must be from 0 to 65535.", "Correct"),
        ("soak_s = inf", "'soak_s' is inf", "Correct"),
        ("keep_s = 1\n[hook]\nx = 1", "there is no setting 'keep_s'", ""),
        ("data_dir = 3", "'data_dir' must be a text", "/srv"),
        ('log_level = "loud"', "'log_level' is wrong", "settings"),
        ("port = ", "is not TOML", "port = 8080"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_was_meant(config, text, message, hint):
    file = config(text)
    with pytest.raises(ConfigError) as caught:
        configured(None, {})
    assert str(file) in caught.value.message
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_named_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        configured(tmp_path / "nowhere.toml", {})


def test_a_reload_keeps_what_needs_a_restart_and_names_it(tmp_path):
    old = Settings(data_dir=tmp_path)
    new = Settings(data_dir=tmp_path, port=9000, soak_s=1.0)
    settings, waiting = reloaded(old, new)
    assert (settings.port, settings.soak_s, waiting) == (8080, 1.0, ("port",))


def test_root_reads_the_configuration_of_the_service(tmp_path, monkeypatch):
    for name in ("STATE_DIRECTORY", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(settings, "SERVICE_DATA_DIR", tmp_path)
    monkeypatch.setattr(config_file, "SYSTEM_FILE", tmp_path / "agent.toml")
    (tmp_path / "agent.toml").write_text("port = 9000\n")
    found = administered(None, {})
    assert (found.settings.port, found.settings.data_dir) == (9000, tmp_path)
    assert found.sources["data_dir"] == "default"
    (tmp_path / "agent.toml").write_text('data_dir = "/srv/edgeopt"\n')
    assert administered(None, {}).settings.data_dir == Path("/srv/edgeopt")


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


NAMES = tuple(name for name, _ in COMMANDS)


@pytest.fixture
def said(capsys):
    def ask(*arguments):
        return run(list(arguments)), *capsys.readouterr()

    return ask


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_every_command_in_the_order_of_work(said, arguments):
    code, out, err = said(*arguments)
    assert (code, err) == (0, "")
    listed = out.split("Commands:\n")[1]
    assert tuple(line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)) == NAMES
    assert "Examples:" in out


@pytest.mark.parametrize(
    "command", [*((n,) for n in NAMES), ("trust", "add"), ("trust", "list"), ("trust", "remove")]
)
def test_every_command_has_help_with_examples_and_speaks_to_programs(said, command):
    code, out, err = said(*command, "--help")
    assert (code, err) == (0, "")
    assert f"  edgeopt-agent {' '.join(command)}" in out.split("Examples:\n")[1].split("\n\n")[0]
    assert "--json" in out
    assert max(len(line) for line in out.splitlines()) <= 100


def test_the_version(said):
    assert said("--version") == (0, f"edgeopt-agent {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "sentence", "command"),
    [
        (("dance",), "No such command 'dance'.", ""),
        (("run", "--port", "70000"), "Invalid value for '--port'", "run "),
        (("run", "--soak-seconds", "inf"), "Invalid value for '--soak-seconds'", "run "),
        (("run", "--log-level", "shout"), "Invalid value for '--log-level'", "run "),
        (("remove",), "Missing argument", "remove "),
        (("trust", "add"), "Missing argument", "trust add "),
    ],
)
def test_wrong_usage_is_a_sentence_with_a_next_step(said, arguments, sentence, command):
    code, out, err = said(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.splitlines()[-1].startswith(f"  See: edgeopt-agent {command}--help")


def test_starting_the_program_loads_no_runtime_and_no_numbers():
    """The agent is to be small: what is imported before it serves stays for ever."""
    program = (
        "import sys, edgeopt_agent.main, edgeopt_agent.service; "
        "print([m for m in ('numpy', 'onnx', 'onnxruntime', 'openvino', 'rich', 'psutil') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_help_says_that_several_models_can_be_served(capsys):
    assert run(["--help"]) == 0
    help_text = " ".join(capsys.readouterr().out.split())
    for said in ("One agent can serve several models", "deploy --add", "--model NAME", "remove NAME"):
        assert said in help_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("drift = true", "'drift' must be a table"),
        ("[drift]\ngolden = 1", "there is no setting 'drift.golden'"),
        ("[drift]\nwindow_requests = 10", "'drift.window_requests' is 10; it must be from 50"),
        ('[drift]\nevery_s = "a"', "'drift.every_s' is wrong"),
        ("[drift]\ngolden_s = nan", "'drift.golden_s' is nan"),
    ],
)
def test_a_wrong_table_for_drift_says_what_is_wrong(tmp_path, text, words):
    file = tmp_path / "agent.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(words)):
        configured(file, {})


def test_an_empty_table_turns_drift_on(tmp_path):
    file = tmp_path / "agent.toml"
    assert configured(None, {"data_dir": tmp_path}).settings.drift is None
    file.write_text("[drift]\n")
    assert configured(file, {}).settings.drift == DriftSettings()
