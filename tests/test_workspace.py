import os
import subprocess
import sys
import tempfile

import pytest

from edgeopt.workspace import BENCH, PEAKS, WORK, workspace


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_gone_afterwards_whatever_happens(temporary):
    def interrupted():
        with workspace() as folder:
            (folder / "file").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(temporary.iterdir())


PROGRAMS = {
    **{prefix: f"workspace({prefix!r})" for prefix in (BENCH, PEAKS, WORK)},
    "edgeopt-proof-": "temporary_folder('proof')",
}


@pytest.mark.parametrize("prefix", PROGRAMS)
def test_what_a_killed_process_left_is_swept_by_the_next_of_any_kind(temporary, prefix):
    program = (
        f"import os, tempfile; tempfile.tempdir = {str(temporary)!r}\n"
        "from edgeopt.workspace import temporary_folder, workspace\n"
        f"with {PROGRAMS[prefix]} as folder: open(f'{{folder}}/log', 'w').close(); os.kill(os.getpid(), 9)\n"
    )
    path = os.pathsep.join(p for p in sys.path if p)
    subprocess.run([sys.executable, "-c", program], check=False, env={**os.environ, "PYTHONPATH": path})
    left = [folder.name for folder in temporary.iterdir()]
    assert [name.startswith(prefix) for name in left] == [True]
    with workspace() as mine, workspace() as other:
        assert set(temporary.iterdir()) == {mine, other}


def test_what_a_living_process_owns_or_others_made_stays(temporary):
    kept = [f"edgeopt-proof-{os.getppid()}-abc", "edgeopt-test-cache-1-a", "edgeopt-work-notes", "other"]
    for name in kept:
        (temporary / name / "variants").mkdir(parents=True)
    with workspace():
        pass
    assert sorted(folder.name for folder in temporary.iterdir()) == sorted(kept)
