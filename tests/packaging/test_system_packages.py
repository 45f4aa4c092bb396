import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging" / "system-packages.sh"
QT_LIBRARIES = ("libEGL.so.1", "libGL.so.1", "libxkbcommon.so.0", "libdbus-1.so.3", "libfontconfig.so.1")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Debian packages are for Linux")


@pytest.fixture
def machine(tmp_path):
    """Runs the script where `ldconfig`, `id`, `sudo` and `apt-get` are what the test says."""

    def run(*arguments, libraries=(), font=True, user="0", apt=True, sudo=False, apt_works=True, servers=()):
        folder = tmp_path / "programs"
        folder.mkdir()
        fonts = tmp_path / "fonts"
        (fonts / "truetype" / "some").mkdir(parents=True)
        if font:
            (fonts / "truetype" / "some" / "Some.ttf").touch()
        log = tmp_path / "apt.log"
        log.touch()
        programs = {
            "ldconfig": "".join(f"echo '  {name} (libc6) => /lib/{name}'\n" for name in libraries),
            "id": f"echo {user}\n",
            "sudo": 'if [ "$1" = -n ]; then shift; fi; "$@"\n' if sudo else "exit 1\n",
        }
        programs |= dict.fromkeys(servers, "")
        policy = tmp_path / "policy-rc.d"
        if apt:
            note = f"echo \"$@\" $('{policy}' >/dev/null 2>&1; echo policy=$?) >> '{log}'"
            programs["apt-get"] = f"{note}\nexit {0 if apt_works else 100}\n"
        for name, text in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}")
            (folder / name).chmod(0o755)
        for name in ("sh", "env", "grep", "uname", "true", "tee", "chmod", "rm"):
            (folder / name).symlink_to(shutil.which(name))
        done = subprocess.run(
            [shutil.which("sh"), str(SCRIPT), *arguments],
            env={
                "PATH": str(folder),
                "EDGEOPT_SBIN": str(folder),
                "EDGEOPT_FONTS": str(fonts),
                "EDGEOPT_POLICY": str(policy),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert not policy.exists()
        installed = [line.split() for line in log.read_text().splitlines() if " install " in line]
        return done, [word for line in installed for word in line[line.index("install") + 1 : -1]]

    return run


def test_nothing_is_installed_when_nothing_is_missing(machine):
    done, installed = machine("gui", libraries=QT_LIBRARIES)
    assert (done.returncode, done.stdout, done.stderr, installed) == (0, "", "", [])


@pytest.mark.parametrize("how", [{"user": "0"}, {"user": "1000", "sudo": True}])
def test_only_what_is_missing_is_installed_as_root_or_with_sudo(machine, how):
    done, installed = machine("gui", libraries=QT_LIBRARIES[2:], **how)
    assert done.returncode == 0
    assert installed == ["libegl1", "libgl1"]


@pytest.mark.parametrize("how", [{"user": "1000"}, {"apt": False}, {"apt_works": False}])
def test_one_sentence_when_it_cannot_install(machine, how):
    done, _ = machine("gui", libraries=QT_LIBRARIES[1:], **how)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "libegl1" in done.stderr
    assert "libgl1" not in done.stderr


def test_the_package_for_environments_is_that_of_the_python_which_lacks_it(machine):
    done, installed = machine("venv", sys.executable)
    assert done.returncode == 0
    assert installed == [f"python{sys.version_info.major}.{sys.version_info.minor}-venv"]


def test_wrong_usage_leaves_with_2(machine):
    assert machine()[0].returncode == 2


def test_a_machine_without_any_font_gets_one(machine):
    done, installed = machine("gui", libraries=QT_LIBRARIES, font=False)
    assert done.returncode == 0
    assert installed == ["fonts-dejavu-core"]


def test_windows_on_a_screen_need_more_than_pictures_of_them(machine):
    done, installed = machine("desktop", libraries=QT_LIBRARIES)
    assert done.returncode == 0
    assert "libxcb-cursor0" in installed
    assert "libegl1" not in installed


@pytest.mark.parametrize(
    ("servers", "missing"),
    [
        (("mosquitto", "sshd", "ssh", "docker-registry"), []),
        (("sshd", "ssh", "docker-registry"), ["mosquitto"]),
        ((), ["mosquitto", "openssh-server", "openssh-client", "docker-registry"]),
    ],
)
def test_tests_need_a_broker_an_ssh_server_and_a_registry(machine, servers, missing):
    done, installed = machine("tests", servers=servers)
    assert done.returncode == 0
    assert installed == missing


def test_servers_of_tests_do_not_start_as_services(machine, tmp_path):
    """Debian asks the policy before it starts the services of a package; 101 forbids it."""
    machine("tests")
    lines = (tmp_path / "apt.log").read_text().splitlines()
    assert [line.rpartition("policy=")[2] for line in lines if " install " in line] == ["101"]
