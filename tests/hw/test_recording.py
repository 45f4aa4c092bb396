import json
from pathlib import Path

import msgspec
import pytest

from edgeopt.errors import InputError, UsageError
from edgeopt.events import Result
from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import LocalHost, RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.hw.recording import (
    RecordingHost,
    is_private,
    open_recording,
    read_device,
    scrubbed,
    scrubbed_data,
    scrubbed_names,
)

BOARDS = sorted(folder.name for folder in (Path(__file__).parents[1] / "fakeroots").iterdir())


@pytest.mark.parametrize("name", BOARDS)
def test_a_recording_of_a_machine_gives_the_same_record(board, tmp_path, name):
    machine = RecordingHost(board(name))
    found = probe(machine)
    machine.write(tmp_path / "new" / "recording")
    assert probe(open_recording(tmp_path / "new" / "recording")) == found


def test_a_recording_of_this_machine_gives_the_same_record(tmp_path):
    class Alone(LocalHost):
        def call_in_child(self, library, function, timeout_s=30.0):  # noqa: ARG002 - contract
            return Unavailable("no child here")

    machine = RecordingHost(Alone(cache_folder=None))
    found = probe(machine)
    assert found.cpu.logical_cores >= 1
    machine.write(tmp_path / "recording")
    again = probe(RecordedHost(tmp_path / "recording"))
    assert again == found
    assert again.unavailable.get("openvino.providers") in {None, "no child here"}


def test_everything_is_asked_once(machine):
    class Counting(RecordedHost):
        asked: list = []  # noqa: RUF012 - one test's own class

        def read(self, path):
            self.asked.append(path)
            return super().read(path)

    host = Counting(machine({"/proc/loadavg": "0.1 0.1 0.1 1/9 9"}).root)
    recording = RecordingHost(host)
    assert recording.read("/proc/loadavg") == recording.read("/proc/loadavg") == "0.1 0.1 0.1 1/9 9"
    assert recording.read("/no") is None
    assert recording.read("/no") is None
    assert host.asked.count("/proc/loadavg") == host.asked.count("/no") == 1


def test_what_was_absent_stays_absent(machine, tmp_path):
    recording = RecordingHost(machine({"/dev/one": "x", "/proc/empty": ""}, run={"tool": "said"}))
    assert recording.list("/dev") == ("one",)
    assert recording.read("/proc/empty") == ""
    assert recording.run(("tool",)) == "said"
    assert recording.version("onnx") is recording.call("os", "getpid") is None
    recording.write(tmp_path / "recording")
    again = RecordedHost(tmp_path / "recording")
    # The name was seen and the contents were not.
    assert (again.list("/dev"), again.read("/dev/one")) == (("one",), None)
    assert (again.read("/proc/empty"), again.read("/proc/other")) == ("", None)
    assert again.run(("tool",)) == "said"
    assert again.version("onnx") is again.call("os", "getpid") is None


def test_nothing_private_is_written(machine, tmp_path):
    recording = RecordingHost(
        machine(
            {
                "/proc/cpuinfo": "processor\t: 0\nSerial\t\t: 10000000deadbeef\nModel\t\t: Raspberry Pi\n",
                "/proc/self/mountinfo": "1 2 0:3 / /home/anna rw - nfs server:/anna rw\n"
                "4 2 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                "/sys/class/dmi/id/product_serial": "PF3XYZ",
                "/sys/class/net/eth0/address": "dc:a6:32:01:02:03",
                "/dev/mapper/annasbox-vg": "",
                "/dev/mapper/control": "",
            },
            calls={"platform.node()": "annasbox", "a.b()": {"serial_number": "C02", "id": "dc-a6-32-01-02-03"}},
            run={"gpu": '{"uuid": "GPU-1", "name": "X"}'},
        )
    )
    paths = (
        "/proc/cpuinfo",
        "/proc/self/mountinfo",
        "/sys/class/dmi/id/product_serial",
        "/sys/class/net/eth0/address",
    )
    assert all(recording.read(path) for path in paths)
    assert recording.list("/dev/mapper") == ("annasbox-vg", "control")
    assert recording.call("a", "b")
    assert recording.run(("gpu",))
    recording.write(tmp_path / "recording")
    files = [file for file in (tmp_path / "recording").rglob("*") if file.is_file()]
    text = "\n".join(file.read_text() for file in files)
    for private in ("deadbeef", "anna", "PF3XYZ", "dc:a6", "dc-a6", "C02", "GPU-1"):
        assert private not in text
    assert "Raspberry Pi" in text
    assert "cgroup2 cgroup2 rw" in text
    assert not (tmp_path / "recording/sys/class/dmi").exists()
    assert json.loads((tmp_path / "recording/calls.json").read_text())["run"] == {
        "gpu": '{"uuid": "", "name": "X"}'
    }


def test_nothing_is_written_outside_of_the_folder(machine, tmp_path):
    class Anything(RecordedHost):
        def read(self, path):  # noqa: ARG002 - contract
            return "text"

    recording = RecordingHost(Anything(machine().root))
    recording.read("/../../escaped")
    recording.write(tmp_path / "recording")
    assert not list(tmp_path.glob("escaped"))
    assert (tmp_path / "recording" / "escaped").read_text() == "text"


def test_a_recording_does_not_mix_with_something_else(machine, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for place in (tmp_path / "full", tmp_path / "full" / "file"):
        with pytest.raises(UsageError, match="not an empty folder"):
            RecordingHost(machine()).write(place)
    (tmp_path / "empty").mkdir()
    assert RecordingHost(machine()).write(tmp_path / "empty") == 1


def test_a_folder_that_is_no_recording_says_what_would_be(tmp_path):
    with pytest.raises(InputError, match="no folder"):
        open_recording(tmp_path / "nothing")
    with pytest.raises(InputError, match="contains no recorded machine") as caught:
        open_recording(tmp_path)
    assert "edgeopt probe --record" in caught.value.hint
    (tmp_path / "board" / "proc").mkdir(parents=True)
    with pytest.raises(InputError) as caught:
        open_recording(tmp_path)
    assert str(tmp_path / "board") in caught.value.hint
    assert open_recording(tmp_path / "board").root == tmp_path / "board"


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


@pytest.fixture
def record(board):
    return msgspec.to_builtins(probe(board("raspberry-pi-5")))


@pytest.fixture
def stored(tmp_path):
    def write(data):
        file = tmp_path / "device.json"
        file.write_text(data if isinstance(data, str) else json.dumps(data))
        return file

    return write


def test_the_record_alone_and_the_line_that_the_command_prints(board, record, stored):
    device = probe(board("raspberry-pi-5"))
    assert read_device(stored(record)) == device
    line = msgspec.json.encode(Result("probe", record)).decode()
    assert read_device(stored(line)) == device


def test_unknown_keys_are_ignored_and_missing_sections_are_absent(record, stored):
    record["cpu"]["colour"] = "green"
    record["future"] = {"x": 1}
    del record["state"], record["clusters"], record["schema"]
    device = read_device(stored(record))
    assert device.cpu.model == "Cortex-A76"
    assert device.state is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a device record"),
        ("{", "not a device record"),
        ("[]", "not a device record"),
        ("{}", "missing required field"),
        ('{"schema": 99}', "schema 99"),
        ('{"event": "result", "kind": "targets", "data": {}}', "'targets'"),
        ('{"event": "result", "kind": "probe", "data": {"schema": 2}}', "schema 2"),
        ('{"event": "result", "kind": "probe"}', "not a device record"),
        ("[" * 100_000, "not a device record"),
    ],
)
def test_what_is_no_record_gets_a_sentence(stored, text, words):
    with pytest.raises(InputError, match=words) as caught:
        read_device(stored(text))
    assert caught.value.hint


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_device(tmp_path / "none.json")


def test_absurd_numbers_are_refused(record, stored):
    record["limits"]["usable_cores"] = 0
    with pytest.raises(InputError, match="no cores"):
        read_device(stored(record))
