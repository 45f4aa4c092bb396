import pytest

from edgeopt.hw.recording import is_private, scrubbed, scrubbed_data, scrubbed_names


@pytest.mark.parametrize(
    "path",
    [
        "/sys/class/dmi/id/product_serial",
        "/sys/class/dmi/id/product_uuid",
        "/proc/device-tree/serial-number",
        "/etc/machine-id",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/random/boot_id",
        "/proc/1/environ",
        "/proc/77/cmdline",
    ],
)
def test_files_that_identify_are_left_out(path):
    assert is_private(path)


@pytest.mark.parametrize("path", ["/proc/cpuinfo", "/sys/class/dmi/id/product_name", "/proc/self/cgroup"])
def test_files_that_do_not_identify_stay(path):
    assert not is_private(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Serial\t\t: 1000deadbeef\nModel: Pi", "Serial\t\t:\nModel: Pi"),
        ("  Serial Number (system): C02XYZ\n", "  Serial Number (system):\n"),
        ("at dc:a6:32:01:02:03 here", "at 00:00:00:00:00:00 here"),
        ("id 0f1e2d3c-0000-4000-8000-0123456789ab", "id 00000000-0000-0000-0000-000000000000"),
        ('{"platform_UUID" : "abc", "x": "y"}', '{"platform_UUID" : "", "x": "y"}'),
        ("0000:01:00.0 and 10.0.22631", "0000:01:00.0 and 10.0.22631"),
    ],
)
def test_texts_keep_what_does_not_identify(text, expected):
    assert scrubbed("", text) == expected


def test_of_a_status_only_what_is_allowed_stays():
    text = "Name:\tpython\nUid:\t1000\nCpus_allowed_list:\t0-1\n"
    assert scrubbed("/proc/self/status", text) == "Cpus_allowed_list:\t0-1\n"


def test_the_users_own_folder_goes(monkeypatch):
    monkeypatch.setenv("HOME", "/home/anna")
    assert scrubbed_data({"a": ["/home/anna/v/bin/python", 3, None]}) == {
        "a": ["/home/user/v/bin/python", 3, None]
    }


def test_keys_of_data_are_looked_at():
    assert scrubbed_data({"serial": "1", "gpu_uuid": "2", "name": "3"}) == {
        "serial": "",
        "gpu_uuid": "",
        "name": "3",
    }


def test_names_with_the_hosts_name_go():
    names = ("annasbox-vg", "kvm", "null")
    assert scrubbed_names(names, "annasbox.example") == ("kvm", "null")
    assert scrubbed_names(names, "vm") == scrubbed_names(names, None) == names
