"""Tries `edgeopt probe` and `edgeopt targets` in a new Debian for riscv64: try_riscv64.py [--base FOLDER].

The runtimes publish no wheels for riscv64. Native dependencies are Debian packages, the others pure wheels.
The speed and the CPU's features are not tried: emulated, /proc is that of this machine.
Needs root and debootstrap; on another machine also qemu-user-static and binfmt_misc. Exit codes as in try_deb.py.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from try_deb import ROOT, TrialError, host, inside, make_root, missing, run_in_folder, step

ARCHITECTURE = "riscv64"
# The first Debian with riscv64.
SUITE = "trixie"
NATIVE = ("numpy", "msgspec", "psutil")
PURE = ("py-cpuinfo", "rich", "typer")


def main(arguments: list[str]) -> int:
    """Runs every step, prints a line for each, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="try_riscv64.py", description="Try edgeopt in a new Debian for riscv64.")
    parser.add_argument("--base", type=Path, help="a fresh debootstrap folder to copy; makes one by default")
    given = parser.parse_args(arguments)
    if reason := missing(ARCHITECTURE, given.base):
        sys.stderr.write(f"{reason}\n")
        return 3
    return run_in_folder("try-riscv64-", lambda work: run_trial(work, given.base))


def run_trial(work: Path, base: Path | None) -> None:
    root = work / "root"
    packages = ",".join(("python3", *(f"python3-{name}" for name in NATIVE)))
    make_root(root, base, f"--arch={ARCHITECTURE}", f"--include={packages}", SUITE)
    with step("install edgeopt") as said:
        said.append(install(work, root))
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


def install(work: Path, root: Path) -> str:
    """Installs the wheel of this checkout beside Debian's packages; the versions of those."""
    host(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(work), str(ROOT))
    (wheel,) = work.glob("*.whl")
    (python,) = root.glob("usr/lib/python3.*")
    site = root / "usr/local/lib" / python.name / "dist-packages"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--target", str(site))
    version = f"--python-version={python.name.removeprefix('python')}"
    anywhere = ("--platform=any", version, "--only-binary", ":all:", "-c", str(ROOT / "constraints.txt"))
    host(*pip, *anywhere, *PURE)
    host(*pip, "--no-deps", str(wheel))
    return inside(
        root, "dpkg-query", "--show", "--showformat=${Package} ${Version} ", *(f"python3-{n}" for n in NATIVE)
    )


def ask(root: Path, command: str) -> dict[str, Any]:
    """The data of a command's result in the new Debian, once its output for people works too."""
    inside(root, "python3", "-m", "edgeopt", command)
    data: dict[str, Any] = json.loads(inside(root, "python3", "-m", "edgeopt", command, "--json"))["data"]
    return data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
