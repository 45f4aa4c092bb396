import os
from pathlib import Path

import pytest

from edgeopt.errors import InputError, UsageError
from edgeopt.fleet import pairing
from edgeopt.fleet.request import LookRequest
from edgeopt.platform.user_folders import expanded, home_folder, user_cache_folder
from edgeopt_agent.cli.control import with_local_address
from edgeopt_agent.config import configured, default_file
from edgeopt_agent.settings import default_data_dir, on_data_dir


@pytest.fixture(autouse=True)
def homeless(monkeypatch):
    """A bare user id, as in a container."""
    for name in (
        "HOME",
        "STATE_DIRECTORY",
        "EDGEOPT_CACHE",
        *(f"XDG_{n}_HOME" for n in ("STATE", "CONFIG", "CACHE")),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_123)


def test_there_is_none():
    assert home_folder() is None
    assert user_cache_folder() is None


def test_an_agent_with_a_data_folder_needs_none(tmp_path):
    assert default_file() is None
    assert configured(None, {"data_dir": tmp_path}).settings.data_dir == tmp_path
    assert on_data_dir("command", tmp_path) == f"command --data-dir {tmp_path}"


def test_an_agent_without_a_data_folder_says_what_to_give():
    with pytest.raises(UsageError) as caught:
        default_data_dir()
    assert "--data-dir" in caught.value.hint


def test_a_path_below_a_home_folder_is_a_sentence():
    with pytest.raises(UsageError, match="no home folder for '~/data'"):
        expanded(Path("~/data"))


def test_nothing_is_paired_and_no_pairing_can_be_kept():
    assert pairing.known_pairings() == {}
    with pytest.raises(InputError, match="no home folder"):
        pairing.store_pairing("https://device:8080", pairing.Pairing("token"))


def test_a_command_asks_an_agent_without_its_certificate():
    request = LookRequest(url="http://127.0.0.1:8080")
    assert with_local_address(request) == request
