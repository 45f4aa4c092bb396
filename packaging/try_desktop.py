"""The desktop app's Debian package in a new Debian: install, open a model, take a picture, purge.

Run by try_packages.py. Installs what the package depends on from Debian, nothing else. The screen is the Xvfb of
this machine, so a library that the package forgets to name is missing in the new Debian.
"""

import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from PIL import Image
from try_deb import (
    LIMIT_S,
    ROOT,
    SUITE,
    Figures,
    TrialError,
    files,
    host,
    inside,
    install_package,
    make_root,
    step,
)

WIDTH, HEIGHT = 1280, 800
NAME = "edgeopt-desktop"
# A window has text and lines: far more colours than a screen that is empty or one that is only cleared.
COLOURS = 64
SETTLE_S = 10.0


def run_trial(work: Path, figures: Figures, model: Path, base: Path | None, picture: Path) -> None:
    with step("build the package") as said:
        host(sys.executable, str(ROOT / "packaging/desktop/build.py"), str(work))
        (package,) = work.glob("*.deb")
        said.append(f"{package.stat().st_size / 1e6:.0f} MB")
    root = work / "root"
    make_root(root, base, SUITE)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    shutil.copy(model, root / "tmp" / model.name)
    with step("dependencies") as said:
        inside(root, "apt-get", "--quiet", "update")
        needed = dependencies(package)
        inside(root, "apt-get", "--quiet", "--yes", "--no-install-recommends", "install", *needed)
        said.append(f"{len(needed)} packages named")
    before = files(root)
    with step("install") as said:
        said.append(install_package(root, package, NAME, figures))
    for number in (1, 2):
        with step(f"open a model, start {number}") as said:
            said.append(open_model(work, root, model.name, picture))
    with step("purge"):
        inside(root, "dpkg", "--purge", NAME)
        # Every program with text fills fontconfig's cache.
        left = {path for path in files(root) - before if not path.is_relative_to("var/cache/fontconfig")}
        if left:
            raise TrialError(f"a purge leaves {', '.join(sorted(map(str, left))[:5])}")


def dependencies(package: Path) -> list[str]:
    """The packages that a package depends on, the first of each choice, and a font, as every desktop has one."""
    text = host("dpkg-deb", "--field", str(package), "Depends")
    return [each.partition("|")[0].partition("(")[0].strip() for each in text.split(",")] + ["fonts-dejavu-core"]


def open_model(work: Path, root: Path, model: str, picture: Path) -> str:
    """Opens a model in the app; how long its window took to appear."""
    screens = Path(tempfile.mkdtemp(dir=work))
    options = ("-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-fbdir", str(screens), "-displayfd", "1")
    with subprocess.Popen(
        ["Xvfb", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None  # noqa: S101 - it is a pipe
            display = f":{server.stdout.readline().strip()}"
            return _show(root, display, model, screens / "Xvfb_screen0", picture)
        finally:
            server.terminate()


def _show(root: Path, display: str, model: str, screen: Path, picture: Path) -> str:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DISPLAY": display, "LANG": "C.UTF-8"}
    command = ["chroot", str(root), "edgeopt-gui", f"/tmp/{model}"]  # noqa: S108 - inside the new Debian
    began = time.monotonic()
    log = root / "tmp/gui.log"
    with log.open("wb") as stream, subprocess.Popen(command, env=environment, stdout=stream, stderr=stream) as app:
        try:
            while colours(pixels(screen)) < COLOURS:
                if app.poll() is not None or time.monotonic() - began > LIMIT_S:
                    raise TrialError(f"no window appears: {log.read_text()}")
                time.sleep(0.02)
            first_s, cpu = time.monotonic() - began, psutil.Process(app.pid).cpu_times()
            time.sleep(SETTLE_S)
            if app.poll() is not None:
                raise TrialError(f"the app ended with exit code {app.returncode}: {log.read_text()}")
            picture.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels(screen)).save(picture)
        finally:
            app.terminate()
    if said := log.read_text().strip():
        print(said)
    return f"window after {first_s:.1f} s ({cpu.user + cpu.system:.1f} s of CPU time); see {picture}"


def pixels(screen: Path) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    """The picture in a file of xwd: 25 numbers, the colours, then rows of blue, green, red and a filler."""
    content = screen.read_bytes()
    header = struct.unpack(">25I", content[:100])
    begin, width, height, row_bytes = header[0] + 12 * header[19], header[4], header[5], header[12]
    rows = np.frombuffer(content, np.uint8, row_bytes * height, begin).reshape(height, row_bytes)
    return np.ascontiguousarray(rows[:, : 4 * width].reshape(height, width, 4)[..., 2::-1])


def colours(picture: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]) -> int:
    return len(np.unique(picture.reshape(-1, 3).view(np.dtype((np.void, 3)))))
