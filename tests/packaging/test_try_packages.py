"""The trials of the packages: what is skipped, the table, the exit code; slow, each package in a new Debian."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "packaging"
SCRIPT = FOLDER / "try_packages.py"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gets further")


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("try_packages", "try_deb", "try_desktop", "try_riscv64")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("try_packages")
    for name in names:
        sys.modules.pop(name, None)


def script(*arguments, path=os.environ["PATH"]):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )


def test_nothing_runs_without_the_tools_and_the_table_says_why(tmp_path):
    done = script(path=str(tmp_path))
    assert done.returncode == 3, done.stderr
    rows = done.stdout.partition("\ntarget ")[2].splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["amd64", "arm64", "riscv64", "desktop"]
    reason = "dpkg-deb is not installed" if os.geteuid() == 0 else "needs root, for chroot"
    assert {row.partition("skipped: ")[2] for row in rows} == {reason}


def test_chosen_targets_run_in_the_order_of_the_table(tmp_path):
    done = script("desktop", "amd64", path=str(tmp_path))
    assert re.findall(r"^(\w+)\nskipped", done.stdout, flags=re.MULTILINE) == ["amd64", "desktop"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mips"], "unknown target mips: choose from amd64, arm64, riscv64, desktop"),
        (["--base", "x"], "--base needs one"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    done = script(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


@needs_root
def test_a_target_names_its_missing_tool(trials, tmp_path, monkeypatch):
    (tmp_path / "dpkg-deb").write_text("#!/bin/sh\n")
    (tmp_path / "dpkg-deb").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert trials.plan("amd64", None, Path("m"), Path("p")).missing == "debootstrap is not installed"
    assert trials.plan("desktop", tmp_path, Path("m"), Path("p")).missing == "Xvfb is not installed"


def test_a_failed_trial_keeps_its_figures_and_the_next_one_runs(trials, capsys):
    def fails(_work, figures):
        figures.package_mb, figures.requests, figures.failed_requests, figures.slowest_ms = 51.26, 812, 3, 345.4
        raise trials.try_deb.TrialError("a purge leaves etc/edgeopt\nand more")

    def breaks(_work, _figures):
        return {}["answer"]

    def works(work, figures):
        assert work.is_dir()
        figures.installed_mib, figures.install_s = 196.7, 9.04

    runs = [("amd64", "", fails), ("arm64", "", breaks), ("riscv64", "no qemu", fails), ("desktop", "", works)]
    results = [trials.run(trials.Trial(*each)) for each in runs]
    assert trials.exit_code(results) == 1
    assert trials.exit_code(results[2:]) == 0
    assert trials.exit_code(results[2:3]) == 3
    rows = [re.split(r" {2,}", line) for line in trials.table(results).strip().splitlines()]
    assert rows[0] == list(trials.HEADER)
    assert rows[1][:4] == ["amd64", "51.3", "-", "-"]
    assert rows[1][5:] == ["3 of 812", "345", "failed: a purge leaves etc/edgeopt"]
    assert rows[2][-1] == "failed: KeyError: 'answer'"
    assert rows[3] == ["riscv64", *"------", "skipped: no qemu"]
    assert rows[4][2:4] == ["197", "9.0"]
    assert rows[4][-1] == "worked"
    assert "FAILED: a purge leaves etc/edgeopt\nand more" in capsys.readouterr().out


@needs_root
def test_an_interrupted_trial_removes_nothing_that_is_mounted(trials, tmp_path, monkeypatch):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").touch()
    (tmp_path / "trials").mkdir()
    folders = []

    def interrupted(work, _figures):
        (work / "proc").mkdir()
        folders.append(work)
        command = ["mount", "--bind", str(tmp_path / "outside"), str(work / "proc")]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("nothing can be mounted here")
        raise KeyboardInterrupt

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "trials"))
    with pytest.raises(KeyboardInterrupt):
        trials.run(trials.Trial("amd64", "", interrupted))
    assert (tmp_path / "outside/file").exists()
    assert not folders[0].exists()


def test_the_riscv64_trial_installs_each_dependency_of_edgeopt(trials):
    riscv64 = trials.try_riscv64
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w-]+", each)[0] for each in project["dependencies"]]
    assert sorted(names) == sorted((*riscv64.NATIVE, *riscv64.PURE))


def steps(*arguments):
    """The lines of a trial that works, by step."""
    done = script(*arguments)
    if done.returncode == 3:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(re.findall(r"^(\w[\w ]*?) {2,}[\d.]+ s  (.*)$", done.stdout, flags=re.MULTILINE))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_agent_serves_through_an_upgrade_and_leaves_nothing_after_a_purge(debian_base):
    found = steps("amd64", "--base", debian_base)
    assert "agrees with this machine" in found["infer"]
    assert found["upgrade while serving"].startswith("0 of ")
    assert found["purge"].startswith("nothing is left")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_arm64_package_does_the_same_emulated_and_knows_the_emulated_cpu():
    found = steps("arm64")
    assert re.match(r"neon .*dotprod.* \(/proc/self/auxv", found["probe"])
    assert "agrees with this machine" in found["infer"]
    assert found["upgrade while serving"].startswith("0 of ")
    assert found["purge"].startswith("nothing is left")
    assert found["optimize"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_probe_and_targets_run_on_riscv64():
    assert steps("riscv64")["probe"] == "riscv64"
