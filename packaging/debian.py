"""What both Debian packages are made with: files of a tree, shell completion, a manual page, dpkg-deb."""

import gzip
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from edgeopt.cli.program import Shell, script

ROOT = Path(__file__).parents[1]
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
ARCHITECTURES = {machine: name for name, machine in MACHINES.items()}
# Wheels for a newer C library than this would leave out systems that Debian 12's Python runs on.
NEWEST_GLIBC_2 = 28
COMPLETIONS = {
    Shell.BASH: "usr/share/bash-completion/completions/{}",
    Shell.ZSH: "usr/share/zsh/vendor-completions/_{}",
    Shell.FISH: "usr/share/fish/vendor_completions.d/{}.fish",
}


def missing_tools() -> str:
    """What keeps this machine from making packages; empty where nothing does."""
    if shutil.which("dpkg-deb") is None or platform.machine() not in ARCHITECTURES:
        return f"build.py needs dpkg-deb, on one of: {', '.join(ARCHITECTURES)}.\n"
    return ""


def architecture() -> str:
    return ARCHITECTURES[platform.machine()]


def platforms(architecture: str) -> list[str]:
    """The options of pip that choose wheels for an architecture, the newest C library first."""
    tags = [f"manylinux_2_{minor}" for minor in range(NEWEST_GLIBC_2, 4, -1)]
    tags += ["manylinux2014", "manylinux2010", "manylinux1"]
    return [f"--platform={tag}_{MACHINES[architecture]}" for tag in tags]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def compress(source: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(source.read_bytes(), mtime=0))


def add_help(tree: Path, program: str, package: str) -> None:
    """Shell completion and the manual page of a program, and the changelog."""
    for shell, path in COMPLETIONS.items():
        # zsh runs the file itself at the first Tab, and only then knows the function that it defines.
        function = f"_{program.replace('-', '_')}_completion"
        first = f'{function} "$@"\n' if shell is Shell.ZSH else ""
        write(tree / path.format(program), f"{script(program, shell)}\n{first}")
    compress(ROOT / "CHANGELOG.md", tree / "usr/share/doc" / package / "changelog.gz")
    with tempfile.TemporaryDirectory() as pages:
        command = [sys.executable, str(ROOT / "packaging/make_man.py"), pages, program]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        compress(Path(pages, f"{program}.1"), tree / f"usr/share/man/man1/{program}.1.gz")


def installed_kib(tree: Path) -> int:
    size = sum(path.lstat().st_size for path in tree.rglob("*") if "DEBIAN" not in path.parts)
    return -(-size // 1024)


def pack(tree: Path, package: Path, programs: Collection[Path], compression: int) -> Path:
    """Writes the package; of its files, those named are executable."""
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path in programs else 0o644)
    package.parent.mkdir(parents=True, exist_ok=True)
    options = ("--root-owner-group", "-Zxz", f"-z{compression}")
    subprocess.run(
        ["dpkg-deb", *options, "--build", str(tree), str(package)], check=True, stdout=subprocess.DEVNULL
    )
    return package
