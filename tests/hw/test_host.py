import sys

import pytest

from edgeopt.hw.child import plain
from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import LocalHost, RecordedHost, call_key
from edgeopt.platform.user_folders import user_cache_folder

LOCAL = LocalHost(cache_folder=None)


def test_a_file_and_a_folder_are_read(tmp_path):
    (tmp_path / "b").write_bytes(b"caf\xc3\xa9 \xff")
    (tmp_path / "a").write_text("x")
    assert LOCAL.read(str(tmp_path / "b")) == "café �"
    assert LOCAL.list(str(tmp_path)) == ("a", "b")


@pytest.mark.parametrize("path", ["/no/such/file", "/", "with\0null"])
def test_what_cannot_be_read_is_none(path):
    assert LOCAL.read(path) is None
    assert LOCAL.list(f"{path}/nothing") == ()


def test_a_command_gives_its_output_and_a_failing_one_none():
    assert LOCAL.run((sys.executable, "-c", "print('hello')")) == "hello\n"
    assert LOCAL.run((sys.executable, "-c", "raise SystemExit(3)")) is None
    assert LOCAL.run(("no-such-command-anywhere",)) is None
    assert LOCAL.run((sys.executable, "-c", "input()", "waits"), timeout_s=5) is None


def test_calls_come_back_as_plain_data():
    assert LOCAL.call("platform", "python_version") == sys.version.split()[0].rstrip("+")
    assert LOCAL.call("sys", "executable") == sys.executable
    assert LOCAL.call("no_such_library", "function") is None
    assert LOCAL.call("math", "sqrt", -1) is None
    assert plain({"a": {3, 1}, "b": object()}) == {"a": [1, 3], "b": None}


def test_versions_are_found_by_any_spelling_of_the_name():
    from importlib.metadata import version

    assert LOCAL.version("msgspec") == version("msgspec")
    assert LOCAL.version("typing.extensions") == LOCAL.version("Typing_Extensions")
    assert LOCAL.version("no-such-distribution") is None


def test_the_first_of_two_installations_counts_as_it_does_for_an_import(tmp_path, monkeypatch):
    for folder, release in (("first", "2.0"), ("second", "1.0")):
        (tmp_path / folder / f"some_runtime-{release}.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second")])
    assert LOCAL.version("some-runtime") == "2.0"


def test_the_cache_folder_is_that_of_the_system(monkeypatch, tmp_path):
    monkeypatch.delenv("EDGEOPT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_folder() == tmp_path / "edgeopt"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_cache_folder() == tmp_path / "home" / ".cache" / "edgeopt"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert user_cache_folder() == tmp_path / "home" / "Library/Caches" / "edgeopt"
    monkeypatch.setenv("EDGEOPT_CACHE", str(tmp_path / "mine"))
    assert user_cache_folder() == tmp_path / "mine"


def test_a_recording_answers_from_its_files_and_calls(machine):
    host = machine(
        {"/proc/version": "Linux"},
        calls={call_key("os", "sched_getaffinity", 0): [0, 1]},
        run={"sysctl -n x": "7"},
        versions={"onnx": "1.2"},
    )
    assert host.read("/proc/version") == "Linux"
    assert host.list("/proc") == ("version",)
    assert host.call("os", "sched_getaffinity", 0) == [0, 1]
    assert host.run(("sysctl", "-n", "x")) == "7"
    assert host.version("onnx") == "1.2"
    assert host.version("openvino") is None
    assert host.call_in_child("a", "b") == Unavailable("a.b() was not recorded")


def test_a_recording_can_name_more_than_it_holds(machine):
    host = machine({"/dev/one": ""}, lists={"/dev": ["two", "one", 3], "/sys": "no list"})
    assert host.list("/dev") == ("one", "two")
    assert host.list("/sys") == ()
    assert host.read("/dev/two") is None


def test_a_child_that_failed_while_recording_fails_in_the_same_way(machine):
    host = machine(calls={"a.b()": {"unavailable": "a.b() crashed: SIGSEGV"}})
    assert host.call_in_child("a", "b") == Unavailable("a.b() crashed: SIGSEGV")


def test_links_that_go_round_in_circles_are_absent(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert RecordedHost(tmp_path).read("/a") is None
    assert RecordedHost(tmp_path).list("/a") == ()


def test_a_link_does_not_lead_out_of_a_recording(tmp_path):
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")
    host = RecordedHost(tmp_path / "root")
    assert host.read("/link") is None
    assert host.read("/../secret") is None


@pytest.mark.parametrize("text", ["{", "[]", '{"calls": 3}', "[" * 100_000])
def test_a_damaged_recording_knows_nothing(tmp_path, text):
    (tmp_path / "calls.json").write_text(text)
    assert RecordedHost(tmp_path).call("os", "cpu_count") is None
