from pathlib import Path

import pytest

from edgeopt.errors import MissingError
from edgeopt_gui import display

NOWHERE = Path("no-such-folder")


def test_no_screen_at_all_is_said_with_a_next_step():
    with pytest.raises(MissingError, match="No display") as caught:
        display.check({}, NOWHERE)
    assert "edgeopt --help" in caught.value.hint


def test_a_platform_that_needs_no_screen_is_let_through():
    display.check({"QT_QPA_PLATFORM": "offscreen"}, NOWHERE)


def test_an_x_screen_that_does_not_answer_is_named(monkeypatch):
    class DeadXcb:
        def __init__(self):
            self.xcb_connect = lambda *_: 1
            self.xcb_connection_has_error = lambda _: 1
            self.xcb_disconnect = lambda _: None

    # No test machine has a dead X server to ask, and many have no libxcb.
    functions = DeadXcb()
    for name in ("xcb_connect", "xcb_connection_has_error", "xcb_disconnect"):
        setattr(functions, name, type("Function", (), {"__call__": staticmethod(getattr(functions, name))})())
    monkeypatch.setattr(display.ctypes, "CDLL", lambda _: functions)
    with pytest.raises(MissingError, match=r"':99' does not answer"):
        display.check({"DISPLAY": ":99"}, NOWHERE)


def test_a_wayland_screen_that_does_not_answer_is_named(tmp_path):
    with pytest.raises(MissingError, match="wayland-7 does not answer"):
        display.check({"WAYLAND_DISPLAY": "wayland-7", "XDG_RUNTIME_DIR": str(tmp_path)}, NOWHERE)


def test_a_plugin_that_cannot_be_loaded_names_the_library(tmp_path):
    (tmp_path / "libqxcb.so").write_bytes(b"\x7fELF and then nothing")
    with pytest.raises(MissingError, match="needs the system library"):
        display.check({"DISPLAY": ":99"}, tmp_path)


@pytest.mark.parametrize(
    ("said", "package"),
    [
        ("libEGL.so.1: cannot open shared object file: No such file or directory", "libegl1"),
        ("libxcb-cursor.so.0: cannot open shared object file", "libxcb-cursor0"),
        ("libxkbcommon-x11.so.0: cannot open", "libxkbcommon-x11-0"),
    ],
)
def test_the_package_of_a_missing_library_is_named(said, package):
    error = display.missing_library(ImportError(said))
    assert error.hint == f"Install it with: sudo apt-get install {package}"
    assert said.partition(":")[0] in error.message
