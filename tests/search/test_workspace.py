import os
import subprocess
import sys
import tempfile

import pytest

from edgeopt.search.workspace import workspace


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_gone_afterwards(temporary):
    with workspace() as folder:
        (folder / "deep").mkdir()
        (folder / "deep/file").write_text("x")
        assert folder.parent == temporary
    assert not list(temporary.iterdir())


def test_it_is_gone_after_an_interrupt(temporary):
    def interrupted():
        with workspace():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(temporary.iterdir())


def test_two_at_once_do_not_meet():
    with workspace() as one, workspace() as other:
        assert one != other
        assert one.is_dir()


def test_what_a_killed_search_left_is_swept_and_a_living_one_is_not(temporary):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [f"edgeopt-work-{os.getppid()}-abc", "edgeopt-work-notes", "other"]
    for name in (f"edgeopt-work-{dead.pid}-abc", *kept):
        (temporary / name / "variants").mkdir(parents=True)
    with workspace():
        pass
    assert sorted(p.name for p in temporary.iterdir()) == kept
