"""The walk of a search in docs/architecture.md, followed by its imports."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

from edgeopt.workers.tasks import TASKS

ROOT = Path(__file__).parents[2]
MAX_STOPS, MAX_RETURNS = 12, 3


def stops():
    """Depth and file of each stop."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split("## Walk of a search\n", 1)[1].split("\n## ", 1)[0]
    return [(len(dent) // 2, path) for dent, path in re.findall(r"^( *)- `([^`]+\.py)`", section, re.MULTILINE)]


def module_of(path):
    return path.removesuffix(".py").replace("/", ".")


def imported_by(path):
    """Modules, those of the tasks that its workers run included."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    if "edgeopt.workers.client" in found:
        found |= {place.partition(":")[0] for place in TASKS.values()}
    return found


def calls():
    """Each file of the walk with the one that it is called from."""
    above = []
    for depth, path in stops():
        del above[depth:]
        if above:
            yield above[-1], path
        above.append(path)


@pytest.mark.parametrize(("caller", "called"), list(calls()))
def test_each_file_of_the_walk_is_imported_by_the_one_above_it(caller, called):
    assert module_of(called) in imported_by(caller)


def test_the_walk_is_short():
    depths = [depth for depth, _ in stops()]
    assert 10 < len(depths) <= MAX_STOPS
    assert sum(after <= before for before, after in pairwise(depths)) <= MAX_RETURNS


def test_the_walk_begins_at_the_command_line_and_reaches_the_bundle():
    paths = [path for _, path in stops()]
    assert paths[0] == "edgeopt/cli/optimize.py"
    assert "edgeopt/bundle/write.py" in paths
