import pytest

from edgeopt.errors import UsageError
from edgeopt.remote.address import FOLDER, SshAddress, read_address


def test_address_with_all_its_parts_is_read():
    assert read_address("ssh://pi@camera:2222?python=/opt/python&folder=/data/edgeopt") == SshAddress(
        "pi@camera", 2222, "/opt/python", "/data/edgeopt"
    )


def test_address_without_settings_has_the_usual_ones():
    assert read_address("ssh://camera") == SshAddress("camera", None, "python3", FOLDER)


@pytest.mark.parametrize(
    "text",
    ["camera", "http://camera", "ssh://", "ssh://-oProxyCommand=id", "ssh://a b", "ssh://camera:x", "ssh://a/b"],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="not the address of a device"):
        read_address(text)


def test_unknown_setting_is_named():
    with pytest.raises(UsageError, match="unknown setting 'pyton'"):
        read_address("ssh://camera?pyton=/opt/python")
