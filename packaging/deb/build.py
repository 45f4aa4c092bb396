"""Builds the agent as a Debian package: build.py FOLDER [--architecture NAME] [--compression LEVEL].

The environment below /opt/edgeopt-agent is made of wheels; its interpreter is the system's own Python. Nothing of
it is run, so a package for another architecture is built like one for this machine's own.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from edgeopt.version import __version__

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(HERE.parent))
import debian  # noqa: E402 - beside this folder, which no package is

PREFIX = "opt/edgeopt-agent"
PROGRAM = "usr/bin/edgeopt-agent"
EXTRAS = "agent,cpu,fleet,text"
PYTHON = "python{}.{}".format(*sys.version_info)
SITE = f"{PREFIX}/lib/{PYTHON}/site-packages"
SOCKET = ROOT / "packaging/edgeopt-agent.socket"
SCRIPTS = ("postinst", "prerm", "postrm")


def main(arguments: list[str]) -> int:
    """Builds the package and says where it is."""
    parser = argparse.ArgumentParser(prog="build.py", description="Build the agent as a Debian package.")
    parser.add_argument("folder", type=Path, help="where to write the package")
    parser.add_argument("--compression", type=int, default=6, metavar="LEVEL", help="from 0 to 9; 6 by default")
    own = debian.ARCHITECTURES.get(platform.machine())
    parser.add_argument(
        "--architecture", choices=debian.MACHINES, default=own, help="of the device; this machine's by default"
    )
    given = parser.parse_args(arguments)
    if said := debian.missing_tools():
        sys.stderr.write(said)
        return 1
    if given.architecture is None:
        sys.stderr.write(f"build.py needs --architecture: {' or '.join(debian.MACHINES)}.\n")
        return 1
    with tempfile.TemporaryDirectory() as work:
        tree = Path(work, "tree")
        lay_out(tree)
        report = Path(work, "report.json")
        install_packages(tree / SITE, Path(work), given.architecture, report)
        strip(tree / SITE)
        package = pack(tree, given.folder, given.architecture, given.compression)
        print(package, flush=True)
        sbom = [sys.executable, str(ROOT / "packaging/sbom.py"), str(package)]
        subprocess.run([*sbom, "--site", str(tree / SITE), "--report", str(report)], check=True)
    return 0


def lay_out(tree: Path) -> None:
    """Writes everything but the Python packages."""
    python = f"/{PREFIX}/bin/{PYTHON}"
    # -I: neither the variables nor the folder of the user who calls it decide what is imported.
    started = f"#!{python} -I\nfrom edgeopt_agent.main import main\n\nmain()\n"
    debian.write(tree / PREFIX / "bin/edgeopt-agent", started)
    debian.link(tree / PREFIX / "bin" / PYTHON, f"/usr/bin/{PYTHON}")
    debian.write(tree / PREFIX / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    debian.link(tree / PROGRAM, f"/{PREFIX}/bin/edgeopt-agent")
    debian.write(tree / "usr/lib/systemd/system/edgeopt-agent.service", unit())
    debian.write(tree / "usr/lib/systemd/system/edgeopt-agent.socket", SOCKET.read_text())
    debian.write(tree / "usr/lib/sysusers.d/edgeopt-agent.conf", (HERE / "sysusers.conf").read_text())
    debian.write(tree / "etc/edgeopt/agent.toml", (HERE / "agent.toml").read_text())
    debian.write(tree / "usr/share/doc/edgeopt-agent/copyright", (HERE / "copyright").read_text())
    debian.add_help(tree, "edgeopt-agent", "edgeopt-agent")


def unit() -> str:
    """The unit of systemd, for this place and for the user that sysusers.d makes."""
    text = (ROOT / "packaging/edgeopt-agent.service").read_text()
    text = re.sub(r"\A(#.*\n)+", "# The agent as a service; `systemctl edit edgeopt-agent` changes it.\n", text)
    text = text.replace("=/opt/edgeopt/bin/", f"=/{PREFIX}/bin/")
    # A user that stays lets an administrator act as it; DynamicUser=yes would imply RemoveIPC=.
    return text.replace("DynamicUser=yes\n", "User=edgeopt-agent\nGroup=edgeopt-agent\nRemoveIPC=yes\n")


def install_packages(site: Path, work: Path, architecture: str, report: Path) -> None:
    """Installs edgeopt and what it needs to serve, as constraints.txt has it, from wheels of an architecture."""
    wheels = work / "wheels"
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(ROOT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = wheels.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-compile")
    wanted = ("--only-binary", ":all:", "-c", str(ROOT / "constraints.txt"), f"{wheel}[{EXTRAS}]")
    target = ("--target", str(site), "--report", str(report), *debian.platforms(architecture))
    subprocess.run([*pip, *target, *wanted], check=True)


def strip(site: Path) -> None:
    """Removes what an agent does not use, and the path of this build."""
    for name in ("bin", "share", "edgeopt_gui"):
        shutil.rmtree(site / name, ignore_errors=True)
    for path in sorted(site.rglob("*"), reverse=True):
        if path.is_dir() and path.name in {"tests", "__pycache__", "include"}:
            shutil.rmtree(path)
        elif path.suffix in {".pyi", ".pyx", ".pxd", ".h", ".a"} or path.name == "direct_url.json":
            path.unlink()


def pack(tree: Path, folder: Path, architecture: str, compression: int) -> Path:
    """Adds the control files and writes the package."""
    for name in SCRIPTS:
        debian.write(tree / "DEBIAN" / name, (HERE / name).read_text())
    debian.write(tree / "DEBIAN/conffiles", "/etc/edgeopt/agent.toml\n")
    debian.write(tree / "DEBIAN/control", control(tree, architecture))
    programs = {tree / PREFIX / "bin/edgeopt-agent", *(tree / "DEBIAN" / name for name in SCRIPTS)}
    package = folder / f"edgeopt-agent_{__version__}_{architecture}.deb"
    return debian.pack(tree, package, programs, compression)


def control(tree: Path, architecture: str) -> str:
    """The control file: the packages in the tree decide what it depends on."""
    major, minor = sys.version_info[:2]
    values = {
        "VERSION": __version__,
        "ARCHITECTURE": architecture,
        "SIZE": str(debian.installed_kib(tree)),
        "PYTHON": PYTHON,
        "THIS": f"{major}.{minor}",
        "NEXT": f"{major}.{minor + 1}",
        "GLIBC": "{}.{}".format(*glibc(tree / SITE)),
    }
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], (HERE / "control").read_text())


def glibc(site: Path) -> tuple[int, int]:
    """The oldest C library that all the wheels in a folder run with."""
    older = {"manylinux2014": "manylinux_2_17", "manylinux2010": "manylinux_2_12", "manylinux1": "manylinux_2_5"}
    needed = [(2, 17)]
    for file in site.glob("*.dist-info/WHEEL"):
        tags = re.findall(r"^Tag: \S+-(manylinux\w+?)_(?:x86_64|aarch64)$", file.read_text(), flags=re.MULTILINE)
        versions = [tuple(map(int, older.get(tag, tag).split("_")[1:])) for tag in tags]
        needed += [(major, minor) for major, minor in sorted(versions)[:1]]
    return max(needed)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
