"""`edgeopt optimize --json`, stopped from outside as the desktop app stops it."""

import json
import time

import psutil
import pytest

PHASES = (
    "reading the model",
    "making variants",
    "screening",
    pytest.param("racing", marks=pytest.mark.sweep),
    pytest.param("tuning", marks=pytest.mark.sweep),
    pytest.param("proving", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("phase", PHASES)
def test_sigterm_ends_it_in_every_phase(start, conv_model, conv_data, short_profile, tmp_path, phase):
    out = tmp_path / "out.edgeopt"
    run = start("optimize", conv_model, "-o", out, "--data", conv_data, "--profile", short_profile, "--json")
    run.first_line_with(f'"phase":"{phase}"')
    children = psutil.Process(run.process.pid).children(recursive=True)
    begin = time.monotonic()
    run.process.terminate()
    code, told, err = run.finish()
    assert time.monotonic() - begin < 3
    assert (code, err) == (143, "")
    last = json.loads(told.splitlines()[-1])
    assert (last["event"], last["code"]) == ("error", "terminated")
    alive = psutil.wait_procs(children, timeout=2)[1]
    # Its parent is gone: it is for the system to bury it, which a container's first process may never do.
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    assert [p.name for p in tmp_path.iterdir() if p == out or p.name.startswith(".")] == []
    assert list(run.temporary.iterdir()) == []


def test_a_second_signal_changes_nothing(start, conv_model, conv_data, tmp_path):
    run = start("optimize", conv_model, "-o", tmp_path / "o.edgeopt", "--data", conv_data, "--json")
    run.first_line_with('"phase":"making variants"')
    run.process.terminate()
    run.process.terminate()
    code, told, err = run.finish()
    assert (code, err) == (143, "")
    assert json.loads(told.splitlines()[-1])["code"] == "terminated"


def test_standings_are_lines_of_json_and_no_words_for_people(start, conv_model, short_profile, tmp_path):
    run = start("optimize", conv_model, "-o", tmp_path / "o.edgeopt", "--profile", short_profile, "--json")
    line = json.loads(run.first_line_with('"event":"standing"'))
    assert (line["candidate"], line["status"]) == ("source · onnxruntime-cpu", "racing")
    run.process.terminate()
    run.finish()
