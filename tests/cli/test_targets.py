import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from edgeopt.cli.main import run
from edgeopt.cli.targets import list_targets, show
from edgeopt.hw import probe as probe_module
from edgeopt.hw.host import RecordedHost

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"


@pytest.fixture(autouse=True)
def raspberry_pi_4(monkeypatch):
    monkeypatch.setattr(probe_module, "LocalHost", lambda: RecordedHost(FAKEROOTS / "raspberry-pi-4"))


def test_people_see_every_target_the_chosen_one_first():
    console = Console(file=io.StringIO(), width=200)
    show(list_targets(), console)
    lines = console.file.getvalue().splitlines()
    assert lines[1].split()[:2] == ["mobile-cpu", "chosen"]
    assert lines[2].split()[:2] == ["generic-cpu", "fits"]
    assert any("arm-dotprod" in line and "the CPU lacks dotprod" in line for line in lines)


def test_programs_get_one_record(capsys):
    assert run(["targets", "--json"]) == 0
    event = json.loads(capsys.readouterr().out)
    assert event["kind"] == "targets"
    assert event["data"]["chosen"] == "mobile-cpu"
    assert len(event["data"]["targets"]) == 6
