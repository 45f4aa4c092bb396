"""Tries the packages of this checkout, each in a new Debian, and ends with a table: `make try-packages`, as root.

Needs root and debootstrap; for other architectures qemu-user-static and binfmt_misc, for the app Xvfb. A target
whose tools are missing is skipped. Exit code 0: all that ran worked; 1: something failed; 3: nothing could run.
"""

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import try_deb
import try_desktop
import try_riscv64
from debian import MACHINES
from try_deb import ROOT, SAMPLE, Figures, TrialError, host

SIZES = ("package MB", "installed MiB")
HEADER = ("target", *SIZES, "install s", "total s", "failed requests", "slowest ms", "result")
EXAMPLES = """examples:
  try_packages.py                        every target
  try_packages.py arm64                  one of them
  try_packages.py amd64 --base FOLDER    in a copy of a debootstrap folder"""


@dataclass(frozen=True, slots=True)
class Trial:
    target: str
    missing: str
    """Why it cannot run here; empty if it can."""
    run: Callable[[Path, Figures], None]
    """Takes a working folder, and fills in the figures."""


@dataclass(frozen=True, slots=True)
class Result:
    target: str
    skipped: str = ""
    failure: str = ""
    total_s: float | None = None
    figures: Figures = field(default_factory=Figures)


def main(arguments: list[str]) -> int:
    """Runs the trials one after another, prints the table and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="try_packages.py",
        description="Try the packages, each in a new Debian.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    targets = (*MACHINES, try_riscv64.ARCHITECTURE, "desktop")
    model, picture = SAMPLE.with_suffix(".onnx"), ROOT / "build/desktop.png"
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(targets)}; all by default")
    parser.add_argument("--base", type=Path, metavar="FOLDER", help="fresh debootstrap folder, for one target")
    parser.add_argument("--model", type=Path, metavar="FILE", default=model, help="model for the app")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", default=picture, help="picture of the app to write"
    )
    given = parser.parse_args(arguments)
    if unknown := [each for each in given.targets if each not in targets]:
        parser.error(f"unknown target {unknown[0]}: choose from {', '.join(targets)}")
    chosen = [each for each in targets if each in (given.targets or targets)]
    if given.base and len(chosen) != 1:
        parser.error("--base needs one target: the Debian of each has its own packages")
    results = [run(plan(target, given.base, given.model, given.picture)) for target in chosen]
    print(table(results))
    return exit_code(results)


def plan(target: str, base: Path | None, model: Path, picture: Path) -> Trial:
    """The trial of a target, with the reason why it cannot run here."""
    if target == "desktop":
        absent = missing(platform.machine(), base, "Xvfb")
        if not absent and find_spec("PyInstaller") is None:
            absent = "PyInstaller is not installed: pip install --group desktop -c constraints.txt"
        return Trial(target, absent, partial(try_desktop.run_trial, model=model, base=base, picture=picture))
    if target == try_riscv64.ARCHITECTURE:
        return Trial(target, missing(target, base), partial(try_riscv64.run_trial, base=base))
    absent = missing(MACHINES[target], base)
    return Trial(target, absent, partial(try_deb.run_trial, architecture=target, base=base))


def run(trial: Trial) -> Result:
    print(f"\n{trial.target}", flush=True)
    if trial.missing:
        print(f"skipped: {trial.missing}", flush=True)
        return Result(trial.target, skipped=trial.missing)
    began, figures = time.monotonic(), Figures()
    failure = run_in_folder(f"try-{trial.target}-", lambda work: trial.run(work, figures))
    return Result(trial.target, failure=failure, total_s=time.monotonic() - began, figures=figures)


def run_in_folder(prefix: str, trial: Callable[[Path], None]) -> str:
    """Runs a trial in a new folder, which it removes; what failed, in one line, or nothing."""
    work = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        trial(work)
    except Exception as error:  # noqa: BLE001 - the other trials run whatever this one raises
        reason = f"{'' if isinstance(error, TrialError) else f'{type(error).__name__}: '}{error}"
        print(f"FAILED: {reason}\n{getattr(error, 'stdout', None) or ''}{getattr(error, 'stderr', None) or ''}")
        return reason.partition("\n")[0]
    finally:
        # Not a TemporaryDirectory: that would go into what is still mounted, and remove it.
        unmount(work)
        shutil.rmtree(work)
    return ""


def unmount(folder: Path) -> None:
    """Unmounts all below a folder, also what an interrupted debootstrap left."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([each for each in mounts if Path(each).is_relative_to(folder)]):
        host("umount", "--lazy", mount)


def missing(machine: str, base: Path | None, *programs: str) -> str:
    """Why a trial cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "needs root, for chroot"
    for program in ("dpkg-deb", *(() if base else ("debootstrap",)), *programs):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if machine != platform.machine() and not Path("/proc/sys/fs/binfmt_misc", f"qemu-{machine}").exists():
        remedy = "install qemu-user-static and binfmt-support, and run update-binfmts --enable"
        return f"the kernel does not run programs for {machine}: {remedy}"
    return ""


def table(results: list[Result]) -> str:
    """One row per target; a dash where a trial has no such figure or did not get that far."""
    rows = [HEADER, *map(_row, results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n" + "\n".join(line.rstrip() for line in lines)


def exit_code(results: list[Result]) -> int:
    if any(each.failure for each in results):
        return 1
    return 3 if all(each.skipped for each in results) else 0


def _row(result: Result) -> tuple[str, ...]:
    figures = result.figures
    requests = "-" if figures.requests is None else f"{figures.failed_requests} of {figures.requests}"
    verdict = "worked"
    if result.skipped:
        verdict = f"skipped: {result.skipped}"
    elif result.failure:
        verdict = f"failed: {result.failure}"
    numbers = (figures.package_mb, figures.installed_mib, figures.install_s, result.total_s)
    return (result.target, *map(_number, numbers), requests, _number(figures.slowest_ms), verdict)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
