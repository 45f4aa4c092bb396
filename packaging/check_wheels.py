"""Checks that the index has wheels of all pinned packages for Windows and macOS: python packaging/check_wheels.py.

Packages are what `edgeopt[...]` needs on a desktop, in the versions of constraints.txt. Nothing is installed.
"""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("optimize", "cpu", "openvino", "images", "text", "sign", "gui", "fleet", "directml")
SYSTEMS = {
    "win_amd64": {
        "sys_platform": "win32",
        "platform_system": "Windows",
        "os_name": "nt",
        "platform_machine": "AMD64",
    },
    "macosx_14_0_arm64": {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
}
CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"


def needed(environment: dict[str, str]) -> set[str]:
    """Returns the names of all packages that a system needs; not those of packages that are not installed here."""
    waiting, seen = [("edgeopt", extra) for extra in ("", *EXTRAS)], set[tuple[str, str]]()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for each in map(Requirement, requirements):
            if each.marker is None or each.marker.evaluate({**environment, "extra": extra}):
                waiting += [(canonicalize_name(each.name), more) for more in ("", *each.extras)]
    return {name for name, _ in seen} - {"edgeopt"}


def pinned() -> dict[str, str]:
    """Returns the version of each package in constraints.txt."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def has_wheel(requirement: str, system: str) -> bool:
    """Asks pip, which reads the metadata of the wheel only where the index has it."""
    options = ("--quiet", "--disable-pip-version-check", "--dry-run", "--ignore-installed", "--no-deps")
    options += ("--only-binary", ":all:", "--platform", system, "--target", "unused")
    command = [sys.executable, "-m", "pip", "install", *options, requirement]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def main() -> int:
    """Prints the packages without a wheel; returns 1 if there are any."""
    versions, missing = pinned(), 0
    for system, environment in SYSTEMS.items():
        names = sorted(needed(environment))
        requirements = [f"{name}=={versions[name]}" if name in versions else name for name in names]
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(has_wheel, requirements, [system] * len(names)))
        without = [each for each, has in zip(requirements, found, strict=True) if not has]
        missing += len(without)
        print(f"{system}: {len(names) - len(without)} of {len(names)} have a wheel")
        print("".join(f"  none: {each}\n" for each in without), end="")
    return min(missing, 1)


if __name__ == "__main__":
    raise SystemExit(main())
