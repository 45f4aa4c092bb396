import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from edgeopt.platform import files
from edgeopt.platform.processes import crash_name


def test_on_windows_a_file_that_is_open_for_a_moment_is_replaced_later(tmp_path, monkeypatch):
    source, target = tmp_path / "new", tmp_path / "old"
    source.write_text("new")
    target.write_text("old")
    refusals = iter([PermissionError(), PermissionError(), None])
    move = os.replace

    def refusing(*paths):
        if refused := next(refusals):
            raise refused
        move(*paths)

    monkeypatch.setattr(os, "replace", refusing)
    with pytest.raises(PermissionError):
        files.replace_path(source, target)  # elsewhere that is for the user to hear
    monkeypatch.setattr(files, "os", SimpleNamespace(name="nt"))
    files.replace_path(source, target)
    monkeypatch.undo()
    assert target.read_text() == "new"


def test_the_end_of_a_log_is_read_the_same_way_without_pread(tmp_path, monkeypatch):
    with (tmp_path / "log").open("wb+", buffering=0) as log:
        log.write(b"0123456789")
        assert files.read_end(log.fileno(), 4) == b"6789"
        monkeypatch.delattr(os, "pread")
        assert files.read_end(log.fileno(), 4) == b"6789"
        assert files.read_end(log.fileno(), 40) == b"0123456789"
        log.write(b"x")
        assert files.read_end(log.fileno(), 2) == b"9x"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (None, ""),
        (0, ""),
        (1, ""),
        (-11, "SIGSEGV"),
        (-120, "signal 120"),
        (0xC0000005, "access violation"),
        (0xC0000135, "0xC0000135"),
    ],
)
def test_a_crash_has_the_name_that_its_system_gives_it(code, name):
    assert crash_name(code) == name


def test_a_lock_is_held_until_its_process_ends(tmp_path):
    program = (
        "import os, sys; from edgeopt.platform.files import try_lock; "
        "print(try_lock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "lock")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as holder:
        assert holder.stdout.readline() == "True\n"
        assert subprocess.run(command, input="", capture_output=True, text=True, check=True).stdout == "False\n"
        holder.communicate("")
    assert subprocess.run(command, input="", capture_output=True, text=True, check=True).stdout == "True\n"
