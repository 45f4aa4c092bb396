"""`edgeopt probe` and `edgeopt targets` in a new Debian for riscv64. Run by try_packages.py.

The runtimes publish no wheels for riscv64. Native dependencies are Debian packages, the others pure wheels.
The speed and the CPU's features are not tried: emulated, /proc is that of this machine.
"""

import json
import time
from pathlib import Path
from typing import Any

from try_deb import PIP, Figures, TrialError, build_wheel, host, inside, make_root, mebibytes, step

ARCHITECTURE = "riscv64"
# The first Debian with riscv64.
SUITE = "trixie"
NATIVE = ("numpy", "msgspec", "psutil")
PURE = ("py-cpuinfo", "rich", "typer")


def run_trial(work: Path, figures: Figures, base: Path | None) -> None:
    root = work / "root"
    packages = ",".join(("python3", *(f"python3-{name}" for name in NATIVE)))
    make_root(root, base, f"--arch={ARCHITECTURE}", f"--include={packages}", SUITE)
    with step("install edgeopt") as said:
        said.append(install(work, root, figures))
    with step("probe") as said:
        device = ask(root, "probe")
        if (machine := device["host"]["architecture"]) != ARCHITECTURE:
            raise TrialError(f"edgeopt probe takes the machine for {machine}")
        said.append(machine)
    with step("targets") as said:
        found = ask(root, "targets")
        if not any(target["usable"] for target in found["targets"]):
            raise TrialError("edgeopt targets finds no usable target")
        said.append(f"{found['chosen']} of {len(found['targets'])}")


def install(work: Path, root: Path, figures: Figures) -> str:
    """Installs the wheel of this checkout beside Debian's packages; the versions of those."""
    wheel = build_wheel(work)
    (python,) = root.glob("usr/lib/python3.*")
    site = root / "usr/local/lib" / python.name / "dist-packages"
    began = time.monotonic()
    target = ("--target", str(site), "--platform=any", f"--python-version={python.name.removeprefix('python')}")
    host(*PIP, *target, *PURE)
    host(*PIP, *target, "--no-deps", str(wheel))
    figures.package_mb, figures.installed_mib = wheel.stat().st_size / 1e6, mebibytes(site)
    figures.install_s = time.monotonic() - began
    return inside(
        root, "dpkg-query", "--show", "--showformat=${Package} ${Version} ", *(f"python3-{n}" for n in NATIVE)
    )


def ask(root: Path, command: str) -> dict[str, Any]:
    """The data of a command's result in the new Debian, once its output for people works too."""
    inside(root, "python3", "-m", "edgeopt", command)
    data: dict[str, Any] = json.loads(inside(root, "python3", "-m", "edgeopt", command, "--json"))["data"]
    return data
