"""Stilted wording is found in what people read, and nowhere else."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "packaging" / "words.py"


def found(*files):
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, files)], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout.splitlines()


def test_documents_and_strings_are_scanned_and_docstrings_are_not(tmp_path):
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("# Title\n\nWhoever asks is answered.\n")
    module.write_text('"""Whoever reads this."""\n\nTEXT = "as good as new"\n"""Held against TEXT."""\n')
    code, lines = found(page, module)
    assert code == 1
    assert [line.split(": ")[1] for line in lines] == ["'Whoever'", "'as good as'"]
    assert [line.split(":")[1] for line in lines] == ["3", "3"]


def test_plain_wording_passes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Rejects candidates over the limit. There is no bundle at this path.\n")
    assert found(page) == (0, [])
