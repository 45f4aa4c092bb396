"""Small file systems that tests fill up or damage."""

import contextlib
import os
import subprocess

import pytest


@pytest.fixture
def mount_disk(tmp_path):
    """Mounts a small file system at a new folder until the test ends."""
    script = 'mount -t tmpfs -o size="$1" none "$2" || exit; echo mounted; read -r line; umount -l "$2"'
    with contextlib.ExitStack() as disks:

        def mount(name, size):
            place = tmp_path / name
            place.mkdir()
            # The shell unmounts when its input closes, so a killed test run leaves no mount behind.
            command = ["/bin/sh", "-c", script, "sh", size, str(place)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            holder = disks.enter_context(subprocess.Popen(command, **pipes, text=True, start_new_session=True))
            said = holder.stdout.readline().strip()
            if said != "mounted":
                pytest.skip(f"no file system can be mounted here: {said}")
            return place

        yield mount


@pytest.fixture
def full_disk(mount_disk):
    """A small file system, and a function that fills it up."""
    folder = mount_disk("full", "1m")

    def fill():
        filler = os.open(folder / "filler", os.O_CREAT | os.O_WRONLY)
        with contextlib.suppress(OSError):
            while True:
                os.write(filler, bytes(4096))
        os.close(filler)

    return folder, fill
