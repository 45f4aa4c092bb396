import os
from pathlib import Path

import pytest

from edgeopt_agent import config as config_file
from edgeopt_agent import settings
from edgeopt_agent.config import ConfigError, administered, configured, reloaded
from edgeopt_agent.settings import Settings


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
        ('otlp_endpoint = "file:///etc/passwd"', "'otlp_endpoint' is not the address of a collector", "4318"),
        ("otlp_interval_s = 0", "'otlp_interval_s' must be more than 0", "Correct"),
        ("otlp_trace_ratio = 1.5", "'otlp_trace_ratio' is 1.5; it must be from 0 to 1.", "Correct"),
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
