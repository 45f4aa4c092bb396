import re

import pytest

from tests.pages import ROOT

FOLDER = ROOT / "examples"
PROGRAMS = sorted(path for path in FOLDER.rglob("*") if path.suffix in {".py", ".cpp"})


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_program_is_short_and_has_a_test(program):
    assert 30 <= len(program.read_text().splitlines()) <= 100
    name = program.relative_to(FOLDER).parts[0].removesuffix(".py")
    assert (ROOT / "tests" / "examples" / f"test_{name}.py").is_file()


def test_page_lists_every_program():
    linked = set(re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", (FOLDER / "README.md").read_text(), re.MULTILINE))
    assert linked == {"lab.toml", *(program.relative_to(FOLDER).parts[0] for program in PROGRAMS)}
