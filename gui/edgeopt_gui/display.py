"""Whether a window can be shown at all: Qt would abort the process where it cannot."""

import contextlib
import ctypes
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from edgeopt.errors import MissingError

# The Debian packages of libraries that Qt loads and pip does not bring.
PACKAGES = {
    "libEGL": "libegl1",
    "libGL": "libgl1",
    "libxkbcommon": "libxkbcommon0",
    "libxkbcommon-x11": "libxkbcommon-x11-0",
    "libdbus-1": "libdbus-1-3",
    "libfontconfig": "libfontconfig1",
    "libfreetype": "libfreetype6",
    "libglib-2.0": "libglib2.0-0",
    "libxcb-cursor": "libxcb-cursor0",
    "libxcb-icccm": "libxcb-icccm4",
    "libxcb-image": "libxcb-image0",
    "libxcb-keysyms": "libxcb-keysyms1",
    "libxcb-randr": "libxcb-randr0",
    "libxcb-render-util": "libxcb-render-util0",
    "libxcb-shape": "libxcb-shape0",
    "libxcb-xkb": "libxcb-xkb1",
    "libwayland-client": "libwayland-client0",
    "libwayland-cursor": "libwayland-cursor0",
    "libwayland-egl": "libwayland-egl1",
}
REMOTE = "Run it in a desktop session, or over ssh -X; without a screen use the command line: edgeopt --help"


def missing_library(error: ImportError | OSError) -> MissingError:
    """Returns the error for an import that failed because a system library is missing."""
    name = str(error).partition(":")[0].strip()
    package = PACKAGES.get(re.sub(r"\.so.*$", "", name))
    hint = f"Install it with: sudo apt-get install {package}" if package else f"Qt says: {error}"
    return MissingError(f"The desktop app needs the system library {name}, which is not installed.", hint)


def check(environment: Mapping[str, str], plugins: Path) -> None:
    """Raises MissingError where no window can come up; `plugins` is Qt's folder of platforms."""
    if not sys.platform.startswith("linux"):
        return
    requested = environment.get("QT_QPA_PLATFORM", "")
    platforms = [name.partition(":")[0] for name in requested.split(";") if name]
    if not platforms:
        platforms = [name for name in ("wayland", "xcb") if _promised(name, environment)]
    if not platforms:
        raise MissingError("No display: neither DISPLAY nor WAYLAND_DISPLAY is set.", REMOTE)
    problems: list[MissingError] = []
    for name in platforms:
        try:
            _try(name, environment, plugins)
        except MissingError as problem:
            problems.append(problem)
        else:
            return
    raise problems[0]


def _promised(platform: str, environment: Mapping[str, str]) -> bool:
    return bool(environment.get("WAYLAND_DISPLAY" if platform == "wayland" else "DISPLAY"))


def _try(platform: str, environment: Mapping[str, str], plugins: Path) -> None:
    if platform == "wayland":
        _reach_wayland(environment)
        _load(plugins / "libqwayland.so")
    elif platform == "xcb":
        _load(plugins / "libqxcb.so")
        _reach_x(environment)


def _load(plugin: Path) -> None:
    """Loads a plugin to find the libraries that it needs; raises MissingError if one is missing."""
    if not plugin.exists():
        return  # packaged in another way: Qt itself will tell
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        raise missing_library(error) from error


def _reach_wayland(environment: Mapping[str, str]) -> None:
    name = environment.get("WAYLAND_DISPLAY", "wayland-0")
    path = Path(environment.get("XDG_RUNTIME_DIR", "/run")) / name
    try:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
            probe.connect(str(path))
    except OSError as error:
        raise MissingError(f"The Wayland screen {name} does not answer.", REMOTE) from error


def _reach_x(environment: Mapping[str, str]) -> None:
    display = environment.get("DISPLAY", "")
    try:
        xcb = ctypes.CDLL("libxcb.so.1")
    except OSError as error:
        raise missing_library(error) from error
    xcb.xcb_connect.restype = ctypes.c_void_p
    for function in (xcb.xcb_connection_has_error, xcb.xcb_disconnect):
        function.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(os.fsencode(display), None)
    failed = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    if failed:
        raise MissingError(f"The X screen {display!r} does not answer.", REMOTE)
