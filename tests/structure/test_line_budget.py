"""How many lines of Python each room may have.

A room grows only with its number here, changed in the same commit. Deletions lower the number too.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = "edgeopt/*.py"
MAX_BELOW = 300
BUDGETS = {
    SHARED: 1150,
    "edgeopt/platform": 800,
    "edgeopt/hw": 6850,
    "edgeopt/graph": 17_000,
    "edgeopt/backends": 6450,
    "edgeopt/profiles": 1400,
    "edgeopt/diagram": 2200,
    "edgeopt/data": 2500,
    "edgeopt/text": 450,
    "edgeopt/speech": 400,
    "edgeopt/bundle": 7900,
    "edgeopt/plugins": 400,
    "edgeopt/fleet": 5850,
    "edgeopt/workers": 1050,
    "edgeopt/measure": 9600,
    "edgeopt/quant": 9100,
    "edgeopt/importing": 4600,
    "edgeopt/pipeline": 10_650,
    "edgeopt/remote": 1500,
    "edgeopt/lab": 1150,
    "edgeopt/registry": 1160,
    "edgeopt/views": 2800,
    "edgeopt/commands": 16_550,
    "edgeopt/cli": 5950,
    "agent": 23_250,
    "gui": 26_600,
    "tests": 126_000,
}


def lines_of(root, room):
    folder = root / room
    paths = root.glob(room) if room == SHARED else folder.rglob("*.py")
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def complaint(room, lines, budget):
    if lines > budget:
        return (
            f"{room} has {lines} lines, {lines - budget} more than its budget: delete some, or raise its number."
        )
    if lines < budget - MAX_BELOW:
        return f"{room} has {lines} lines, {budget - lines} fewer than its budget: lower its number."
    return None


@pytest.mark.parametrize("room", BUDGETS)
def test_room_keeps_its_budget(room):
    assert complaint(room, lines_of(ROOT, room), BUDGETS[room]) is None, (
        f"Change BUDGETS in {Path(__file__).name}."
    )


def test_every_room_has_a_budget():
    rooms = {f"edgeopt/{path.name}" for path in (ROOT / "edgeopt").iterdir() if any(path.rglob("*.py"))}
    assert rooms == {room for room in BUDGETS if room.startswith("edgeopt/")} - {SHARED}


@pytest.mark.parametrize(
    ("lines", "found"), [(1001, "1 more than"), (1000, None), (700, None), (699, "301 fewer than")]
)
def test_lines_out_of_budget_are_reported(tmp_path, lines, found):
    (tmp_path / "edgeopt" / "hw" / "probes").mkdir(parents=True)
    (tmp_path / "edgeopt" / "hw" / "probes" / "cpu.py").write_text("x = 1\n" * lines)
    said = complaint("edgeopt/hw", lines_of(tmp_path, "edgeopt/hw"), 1000)
    assert said is None if found is None else found in said
