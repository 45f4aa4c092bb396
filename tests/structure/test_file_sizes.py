from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("edgeopt", "agent", "gui", "tests", "benchmarks", "examples")
MAX_LINES = 500


def too_long(root):
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    assert paths
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    return [f"{path.relative_to(root)} has {lines} lines" for path, lines in counts.items() if lines > MAX_LINES]


def test_no_file_is_longer_than_500_lines():
    assert too_long(ROOT) == []


@pytest.mark.parametrize(("lines", "found"), [(500, []), (501, ["edgeopt/hw/big.py has 501 lines"])])
def test_a_planted_long_file_is_found(tmp_path, lines, found):
    (tmp_path / "edgeopt" / "hw").mkdir(parents=True)
    (tmp_path / "edgeopt" / "hw" / "big.py").write_text("x = 1\n" * lines)
    assert too_long(tmp_path) == found
