import pytest

from edgeopt.errors import UsageError
from edgeopt.fleet.address import Address
from edgeopt.remote.address import FOLDER, AgentAddress, SshAddress, read_address


def test_address_with_all_its_parts_is_read():
    assert read_address("ssh://pi@camera:2222?python=/opt/python&folder=/data/edgeopt") == SshAddress(
        "pi@camera", 2222, "/opt/python", "/data/edgeopt"
    )


def test_address_without_settings_has_the_usual_ones():
    assert read_address("ssh://camera") == SshAddress("camera", None, "python3", FOLDER)


@pytest.mark.parametrize(
    "text",
    ["camera", "ssh://", "ssh://-oProxyCommand=id", "ssh://a b", "ssh://camera:x", "ssh://a/b"],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="not the address of a device"):
        read_address(text)


def test_unknown_setting_is_named():
    with pytest.raises(UsageError, match="unknown setting 'pyton'"):
        read_address("ssh://camera?pyton=/opt/python")


@pytest.mark.parametrize(
    ("more", "beside"), [("", False), ("?beside_serving=1", True), ("?beside_serving=0", False)]
)
def test_address_of_an_agent_is_read(more, beside):
    address = Address("127.0.0.1", 9090, "", "http", "")
    assert read_address(f"http://127.0.0.1:9090{more}") == AgentAddress(address, beside)


@pytest.mark.parametrize("more", ["?beside=1", "?beside_serving=yes", "/models"])
def test_address_of_an_agent_with_anything_else_is_refused(more):
    with pytest.raises(UsageError):
        read_address(f"http://127.0.0.1:9090{more}")


def test_a_client_on_windows_keeps_the_backslashes_of_its_paths(monkeypatch):
    monkeypatch.setenv("EDGEOPT_SSH", r'ssh -i C:\keys\device -F "C:\my keys\config"')
    address = read_address("ssh://camera:2222")
    with monkeypatch.context() as windows:
        windows.setattr("edgeopt.platform.command_line.os.name", "nt")
        client, by_hand = address.client, address.by_hand
    assert client == ["ssh", "-i", r"C:\keys\device", "-F", r"C:\my keys\config", "-p", "2222"]
    assert by_hand == r'ssh -i C:\keys\device -F "C:\my keys\config" -p 2222 camera'
