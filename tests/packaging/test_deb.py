"""The Debian package: its contents without the Python packages, and where the tools are, one that is installed."""

import gzip
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.version import __version__
from edgeopt_agent.config import configured
from edgeopt_agent.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "packaging" / "deb"
INSTALLED_MIB = 220

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")


@pytest.fixture(scope="module")
def build():
    specification = importlib.util.spec_from_file_location("build_deb", FOLDER / "build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def tree(build, tmp_path):
    """All that is packed, with two packages that hold nothing but their tags."""
    tree = tmp_path / "tree"
    build.lay_out(tree)
    for name, tag in (
        ("one", "cp311-cp311-manylinux_2_28_x86_64\nTag: cp311-cp311-manylinux_2_34_x86_64"),
        ("two", "py3-none-any"),
    ):
        info = tree / build.SITE / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    return tree


def dpkg(*arguments):
    return subprocess.run(["dpkg-deb", *map(str, arguments)], capture_output=True, text=True, check=True).stdout


@needs_dpkg
def test_the_package_holds_what_a_service_needs_and_belongs_to_root(build, tree, tmp_path):
    lines = dpkg("--contents", build.pack(tree, tmp_path / "dist", "amd64", 0)).splitlines()
    rows = {line.split()[5].removeprefix("."): line.split() for line in lines}
    for path in (
        *("/etc/edgeopt/agent.toml", "/usr/bin/edgeopt-agent", "/opt/edgeopt-agent/pyvenv.cfg"),
        *("/usr/lib/systemd/system/edgeopt-agent.service", "/usr/lib/sysusers.d/edgeopt-agent.conf"),
        "/usr/lib/systemd/system/edgeopt-agent.socket",
        *("/usr/share/man/man1/edgeopt-agent.1.gz", "/usr/share/doc/edgeopt-agent/copyright"),
        "/usr/share/bash-completion/completions/edgeopt-agent",
    ):
        assert path in rows
    assert {row[1] for row in rows.values()} == {"root/root"}
    assert rows["/opt/edgeopt-agent/bin/edgeopt-agent"][0] == "-rwxr-xr-x"
    assert {row[0] for row in rows.values() if row[0].startswith("d")} == {"drwxr-xr-x"}


@needs_dpkg
def test_the_control_file_names_the_python_of_the_wheels_and_their_c_library(build, tree, tmp_path):
    package = build.pack(tree, tmp_path / "dist", "amd64", 0)
    fields = dict(re.findall(r"^ ?([A-Z]\S*): (.*)$", dpkg("--field", package), flags=re.MULTILINE))
    major, minor = sys.version_info[:2]
    assert (fields["Package"], fields["Version"]) == ("edgeopt-agent", __version__)
    depends = fields["Depends"].split(", ")
    assert {f"python3 (>= {major}.{minor})", f"python3 (<< {major}.{minor + 1})", "libc6 (>= 2.28)"} <= set(
        depends
    )
    assert fields["Architecture"] == "amd64"
    assert package.name == f"edgeopt-agent_{__version__}_amd64.deb"
    dpkg("--control", package, tmp_path / "control")
    assert (tmp_path / "control" / "conffiles").read_text() == "/etc/edgeopt/agent.toml\n"


def test_nothing_in_it_names_the_place_where_it_was_built(tree):
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    texts = {
        path: gzip.decompress(data) if path.suffix == ".gz" else data
        for path in files
        if (data := path.read_bytes())
    }
    assert [path for path, data in texts.items() if str(ROOT).encode() in data or str(tree).encode() in data] == []


def test_it_starts_with_the_python_of_the_system(build, tree):
    started = (tree / "opt/edgeopt-agent/bin/edgeopt-agent").read_text().splitlines()[0]
    assert started == f"#!/opt/edgeopt-agent/bin/{build.PYTHON} -I"
    assert (tree / "opt/edgeopt-agent/bin" / build.PYTHON).readlink() == Path("/usr/bin", build.PYTHON)
    assert (tree / "usr/bin/edgeopt-agent").readlink() == Path("/opt/edgeopt-agent/bin/edgeopt-agent")


def test_the_unit_starts_it_as_the_user_that_the_package_makes(build):
    lines = build.unit().splitlines()
    user = (FOLDER / "sysusers.conf").read_text().split()[1]
    assert f"User={user}" in lines
    assert "DynamicUser=yes" not in lines
    assert "ExecStart=/opt/edgeopt-agent/bin/edgeopt-agent run" in lines
    confined = {"ProtectSystem=strict", "NoNewPrivileges=yes", "PrivateTmp=yes", "RestrictSUIDSGID=yes"}
    assert confined | {"RemoveIPC=yes", "StateDirectory=edgeopt"} <= set(lines)


def test_the_settings_in_the_configuration_are_the_defaults(tmp_path):
    shipped = (FOLDER / "agent.toml").read_text()
    active = re.sub(r"^# (\w+ = )", r"\1", shipped, flags=re.MULTILINE)
    (tmp_path / "agent.toml").write_text(active)
    found = configured(tmp_path / "agent.toml", {"data_dir": tmp_path})
    assert found.settings == Settings(data_dir=tmp_path)
    assert sum("agent.toml" in source for source in found.sources.values()) > 5
    (tmp_path / "agent.toml").write_text(shipped)
    assert all("agent.toml" not in source for source in configured(tmp_path / "agent.toml", {}).sources.values())


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_the_shell_understands_each_script(name):
    done = subprocess.run(["sh", "-n", str(FOLDER / name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_not_needed_is_stripped(build, tmp_path):
    for name in (
        "a/tests/t.py",
        "a/__pycache__/a.pyc",
        "a/a.py",
        "edgeopt_gui/main.py",
        "bin/tool",
        "a.dist-info/direct_url.json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    build.strip(tmp_path)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"a/a.py"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_at_the_first_tab(tree, tmp_path):
    program = tmp_path / "edgeopt-agent"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgeopt_agent "$@"\n')
    program.chmod(0o755)
    folder = tree / "usr/share/zsh/vendor-completions"
    script = f"""
        compdef() {{ :; }}
        _arguments() {{ print -r -- "$*"; }}
        fpath=({shlex.quote(str(folder))})
        autoload -U _edgeopt-agent
        words=(edgeopt-agent doc)
        CURRENT=2
        _edgeopt-agent
    """
    environment = {
        "PATH": os.pathsep.join((str(tmp_path), os.environ["PATH"])),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "agent"))),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        ["zsh", "-f", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "doctor" in done.stdout


def test_a_package_for_another_architecture_takes_wheels_of_that_one(build):
    options = build.debian.platforms("arm64")
    assert {"--platform=manylinux_2_28_aarch64", "--platform=manylinux2014_aarch64"} <= set(options)
    assert [option for option in options if not option.endswith("_aarch64")] == []


def test_an_unknown_architecture_is_refused_with_the_known_ones(build, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        build.main([str(tmp_path), "--architecture", "sparc"])
    assert "arm64" in capsys.readouterr().err


def test_without_dpkg_it_says_what_it_needs(build, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.main([str(tmp_path)]) == 1
    assert "dpkg-deb" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_native_file_of_the_arm64_package_is_for_arm64(build_package, tmp_path):
    package = build_package(tmp_path, "--architecture", "arm64")
    assert package.name == f"edgeopt-agent_{__version__}_arm64.deb"
    assert dpkg("--field", package, "Architecture") == "arm64\n"
    dpkg("--extract", package, tmp_path / "tree")
    files = [path for path in (tmp_path / "tree").rglob("*") if path.is_file() and not path.is_symlink()]
    heads = {path.name: path.read_bytes()[:20] for path in files}
    # e_machine, the 16 bits at offset 18 of an ELF file: 183 is EM_AARCH64.
    machines = {
        name: int.from_bytes(head[18:20], "little") for name, head in heads.items() if head[:4] == b"\x7fELF"
    }
    assert len(machines) > 20
    assert {name: machine for name, machine in machines.items() if machine != 183} == {}
    document = json.loads(package.with_suffix(".cdx.json").read_text())
    assert document["metadata"]["component"]["purl"].endswith("?arch=arm64")
    hashed = {each["name"] for each in document["components"] if "hashes" in each}
    assert {"numpy", "onnxruntime", "grpcio"} <= hashed


@pytest.fixture
def debian(debian_base, tmp_path):
    """A new Debian with Python."""
    if not next(debian_base.glob("usr/bin/python{}.{}".format(*sys.version_info)), None):
        pytest.skip("the Python of that Debian is another one than this, which the wheels are for")
    root = tmp_path / "root"
    subprocess.run(["cp", "-a", str(debian_base), str(root)], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=False, capture_output=True)
    yield root
    subprocess.run(["umount", str(root / "proc")], check=False, capture_output=True)
    shutil.rmtree(root)


def inside(root, *command):
    environment = {
        "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    done = subprocess.run(
        ["chroot", str(root), *command], env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_it_holds_neither_qt_nor_the_optimizer_and_is_small(package, tmp_path):
    dpkg("--extract", package, tmp_path)
    taken = sum(path.lstat().st_size for path in (tmp_path / "opt/edgeopt-agent").rglob("*"))
    assert taken <= INSTALLED_MIB << 20
    there = {path.name for path in (tmp_path / "opt/edgeopt-agent").glob("lib/*/site-packages/*")}
    assert there & {"PySide6", "onnx", "onnxscript", "openvino", "pip", "edgeopt_gui"} == set()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_service_follows_the_package_where_systemd_runs(package, debian):
    systemctl = debian / "usr/local/bin/systemctl"
    systemctl.write_text('#!/bin/sh\necho "$@" >> /tmp/calls\n')
    systemctl.chmod(0o755)
    (debian / "run/systemd/system").mkdir(parents=True)
    shutil.copy(package, debian / "tmp" / "agent.deb")

    def calls(*command):
        (debian / "tmp/calls").write_text("")
        inside(debian, *command)
        lines = (debian / "tmp/calls").read_text().splitlines()
        return [line.split()[0] for line in lines]

    try:
        assert calls("dpkg", "--install", "/tmp/agent.deb") == ["daemon-reload", "enable", "is-enabled", "restart"]
        settings = debian / "etc/edgeopt/agent.toml"
        settings.write_text("keep = 5\n")
        again = calls("dpkg", "--install", "/tmp/agent.deb")
        # No stop: the agent serves until the new one is complete.
        assert again == ["daemon-reload", "daemon-reload", "is-enabled", "restart"]
        assert settings.read_text() == "keep = 5\n"
        assert calls("dpkg", "--purge", "edgeopt-agent")[:2] == ["stop", "disable"]
    finally:
        systemctl.unlink()
        (debian / "run/systemd/system").rmdir()
