import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging/words.py"


def scan(file):
    return subprocess.run([sys.executable, str(SCRIPT), str(file)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "text",
    ['"""Whoever calls it."""', "x = 1  # whoever calls it", 'x = "Ask whoever calls"', 'x = 1\n"""Whoever."""'],
    ids=["docstring", "comment", "message", "description"],
)
def test_stilted_words_of_a_module_are_found(tmp_path, text):
    file = tmp_path / "module.py"
    file.write_text(f"{text}\n", encoding="utf-8")
    done = scan(file)
    assert done.returncode == 1
    assert "'whoever': name the reader or the program" in done.stdout.lower()


def test_names_in_code_are_not_texts(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("whoever = 1\n", encoding="utf-8")
    assert scan(file).returncode == 0
