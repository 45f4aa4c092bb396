"""Text as Windows has it: output in cp1252, command lines with backslashes, folders with spaces."""

import json

import pytest

from edgeopt.cli.commands import COMMANDS
from tests.portable.systems import ODD_NAME

MISSING = "nothing → ★.onnx"


def analyzed(python, folder, *more):
    folder /= ODD_NAME
    folder.mkdir()
    process = python("win32", folder, "-m", "edgeopt", "analyze", MISSING, *more, encoding=None)
    printed, _ = process.communicate(timeout=60)
    return process.returncode, printed


def test_a_terminal_gets_question_marks_for_what_its_code_page_lacks(python, tmp_path):
    code, printed = analyzed(python, tmp_path)
    assert code == 3
    assert "'nothing ? ?.onnx'" in printed.decode("cp1252")


def test_records_are_utf_8_whatever_the_code_page_is(python, tmp_path):
    code, printed = analyzed(python, tmp_path, "--json")
    assert code == 3
    assert MISSING in json.loads(printed.splitlines()[-1])["message"]


HELP = """
import json, sys
from edgeopt.cli.main import run
print(json.dumps([name for name in json.loads(sys.argv[1]) if run([name, "--help"])]))
"""


@pytest.mark.parametrize("system", ["win32", pytest.param("darwin", marks=pytest.mark.slow)])
def test_each_command_prints_its_help(python, tmp_path, system):
    printed, _ = python(system, tmp_path, "-c", HELP, json.dumps(COMMANDS)).communicate(timeout=60)
    assert printed.splitlines()[-1:] == ["[]"], printed
