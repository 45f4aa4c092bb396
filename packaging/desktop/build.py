"""Builds the desktop app as one folder and as a Debian package: build.py FOLDER [--compression LEVEL].

The folder holds its own Python and runs where it lies; its links `edgeopt` and `edgeopt-gui` start it.
"""

import argparse
import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from edgeopt.version import __version__

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent)]
import contents  # noqa: E402 - beside this file
import debian  # noqa: E402 - beside this folder, which no package is

NAME = "edgeopt-desktop"
PROGRAM = "edgeopt-run"
LINKS = ("edgeopt", "edgeopt-gui")
SHARED = {
    "edgeopt.desktop": "usr/share/applications/edgeopt.desktop",
    "edgeopt.svg": "usr/share/icons/hicolor/scalable/apps/edgeopt.svg",
    "edgeopt.xml": "usr/share/mime/packages/edgeopt.xml",
    "edgeopt.metainfo.xml": "usr/share/metainfo/edgeopt.metainfo.xml",
    "copyright": f"usr/share/doc/{NAME}/copyright",
}
_ELF = b"\x7fELF"


def main(arguments: list[str]) -> int:
    """Builds both and says where they are."""
    parser = argparse.ArgumentParser(prog="build.py", description="Build the desktop app and its package.")
    parser.add_argument("folder", type=Path, help="where to write both")
    parser.add_argument("--compression", type=int, default=6, metavar="LEVEL", help="from 0 to 9; 6 by default")
    given = parser.parse_args(arguments)
    if find_spec("PyInstaller") is None:
        sys.stderr.write("build.py needs PyInstaller: pip install --group desktop -c constraints.txt\n")
        return 1
    on_linux = sys.platform == "linux"
    if on_linux and (said := debian.missing_tools()):
        sys.stderr.write(said)
        return 1
    app = freeze(given.folder)
    print(app)
    if not on_linux:
        return 0
    with tempfile.TemporaryDirectory(dir=given.folder) as work:
        tree = Path(work, "tree")
        lay_out(tree)
        # Links, not copies: it is a quarter of a gigabyte.
        shutil.copytree(app, tree / "opt" / NAME, symlinks=True, copy_function=os.link)
        print(pack(tree, given.folder, given.compression))
    return 0


def freeze(folder: Path) -> Path:
    """The app as one folder."""
    app = folder / NAME
    with tempfile.TemporaryDirectory() as work:
        options = ("--noconfirm", "--log-level", "WARN", "--distpath", str(folder), "--workpath", work)
        command = [sys.executable, "-m", "PyInstaller", *options, str(HERE / "edgeopt.spec")]
        # The same order in sets, so the same bytes.
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    for package in contents.AS_FILES:
        # Nobody who uses it may write there, so that Python would compile it at each start.
        compileall.compile_dir(
            app / "_internal" / package,
            quiet=1,
            stripdir=str(app / "_internal"),
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    # Wheels are stripped already; a Python that was built from source is not.
    if shutil.which("strip"):
        for library in (app / "_internal").glob("libpython*.so*"):
            subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    for name in LINKS if contents.programs() == (PROGRAM,) else ():
        debian.link(app / name, PROGRAM)
    return app


def lay_out(tree: Path) -> None:
    """Writes everything but the app."""
    for name in LINKS:
        debian.link(tree / "usr/bin" / name, f"/opt/{NAME}/{PROGRAM}")
    built_s = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    values = {"@VERSION@": __version__, "@DATE@": time.strftime("%Y-%m-%d", time.gmtime(built_s))}
    for name, path in SHARED.items():
        text = (HERE / name).read_text(encoding="utf-8")
        debian.write(tree / path, re.sub("@(VERSION|DATE)@", lambda found: values[found[0]], text))
    debian.add_help(tree, "edgeopt", NAME)


def pack(tree: Path, folder: Path, compression: int) -> Path:
    """Adds the control file and writes the package."""
    values = {
        "VERSION": __version__,
        "ARCHITECTURE": debian.architecture(),
        "SIZE": str(debian.installed_kib(tree)),
        "GLIBC": "{}.{}".format(*glibc(tree / "opt")),
    }
    control = re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], (HERE / "control").read_text())
    debian.write(tree / "DEBIAN/control", control)
    package = folder / f"{NAME}_{__version__}_{debian.architecture()}.deb"
    return debian.pack(tree, package, {tree / "opt" / NAME / PROGRAM}, compression)


def glibc(folder: Path) -> tuple[int, int]:
    """The oldest C library that has all symbols which the programs and libraries in a folder ask for."""
    needed = {(2, 17)}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and (content := path.read_bytes()).startswith(_ELF):
            needed |= {(2, int(minor)) for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", content)}
    return max(needed)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
