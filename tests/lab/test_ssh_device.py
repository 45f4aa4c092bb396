"""A lab of this machine and a device behind a real SSH server, which is switched off in the middle of a run."""

import json

import pytest

from edgeopt.lab.records import read_results
from tests.cli import conftest as cli_fixtures
from tests.measuring import wait_until
from tests.remote import conftest as remote_fixtures

start = cli_fixtures.start
make_server, server = remote_fixtures.make_server, remote_fixtures.server


@pytest.mark.slow
@pytest.mark.timeout(600)  # four searches
def test_device_that_is_switched_off_costs_its_own_cells_and_the_next_run_completes_them(
    server, start, relu_model, quick_profile, tmp_path, monkeypatch
):
    monkeypatch.setenv("EDGEOPT_LOCK", str(tmp_path / "lock"))  # other tests measure on this machine too
    lab, results = tmp_path / "lab.toml", tmp_path / "results"
    lab.write_text(
        f'[[device]]\nname = "here"\n[[device]]\nname = "far"\non = "{server.address}"\n'
        f"[models.relu]\nfile = '{relu_model}'\n[options]\nprofile = '{quick_profile}'\ntime_limit_s = 5\n"
    )

    def states():
        return {each.device: (each.status, each.kept) for each in read_results(results).cells}

    code, out, err = start("lab", "run", lab, "-o", results).finish(within_s=200)
    assert code == 0, out + err
    assert states() == {"here": ("done", False), "far": ("done", False)}

    run = start("lab", "run", lab, "-o", results, "--fresh", "--json")
    for line in run.process.stdout:
        event = json.loads(line)
        cell = event.get("data") or {}
        if cell.get("device") == "far" and cell["status"] == "running" and far_searches(cell["phase"]):
            break
    server.vanish()
    code, _, err = run.finish(within_s=200)
    assert code == 4, err
    assert states() == {"here": ("done", False), "far": ("failed", False)}
    far = read_results(results).cells[1]
    assert "127.0.0.1" in far.reason
    assert far.hint
    wait_until(lambda: server.far_processes() == [])

    server.start()
    code, out, err = start("lab", "run", lab, "-o", results).finish(within_s=200)
    assert code == 0, out + err
    assert states() == {"here": ("done", True), "far": ("done", False)}


def far_searches(phase):
    return not phase.startswith(("connecting", "installing", "copying"))
