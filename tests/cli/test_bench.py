import json
import signal
import sys
import time

import psutil
import pytest

from edgeopt import events


@pytest.fixture
def edgeopt(edgeopt_here):
    return edgeopt_here


def last(out):
    return json.loads(out.splitlines()[-1])


def test_two_backends_by_name(edgeopt, conv_model, conv_data):
    arguments = ["bench", conv_model, "--against", "openvino-cpu", "--data", conv_data, "--rounds", 6]
    code, out, err = edgeopt(*arguments, "--save", "run.json")
    assert code == 0, err
    assert "conv.onnx · openvino-cpu" in out
    assert "conv.npz (32 samples)" in out
    assert "measuring" in err


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--counters", "--backend", "openvino-cup"], 2, "no backend 'openvino-cup'"),
        (["--save", "nowhere/run.json"], 2, "does not exist"),
        (["--sweep", "nothing"], 2, "nothing"),
        (["--duty", "paced"], 2, "needs a rate"),
    ],
)
def test_wrong_usage_is_said(edgeopt, null_model, null_data, more, code, says):
    found, out, _ = edgeopt("bench", null_model(), "--data", null_data, *more, "--json")
    assert found == code
    assert says in last(out)["message"]
    assert last(out)["hint"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--duty", "cold"], "starts of each"),
        (["--duty", "paced", "--rate", 50], "50 runs a second"),
        (["--concurrency", "1,2"], "2 threads"),
        (["--sweep", "latency_ms=1,2"], "latency_ms"),
    ],
)
def test_every_duty_has_its_own_table(edgeopt, null_model, null_data, more, says):
    code, out, err = edgeopt(
        "bench",
        null_model(latency_ms=1),
        "--data",
        null_data,
        "--rounds",
        6,
        *more,
        "--markdown",
    )
    assert code == 0, err
    assert says in out.replace("\\", "")
    assert out.startswith("## edgeopt bench: model.null.json (")
    assert "|---:|" in out
    assert "\nMachine: Linux" in out


@pytest.mark.processes
def test_a_side_that_does_not_finish_is_told_and_ends_with_1(edgeopt, null_model, null_data):
    model, other = null_model(latency_ms=1), null_model("other", crash="run")
    code, out, _ = edgeopt("bench", model, "--against", other, "--data", null_data, "--rounds", 6)
    assert code == 1
    assert "model.null.json" in out
    assert "other.null.json did not finish: crashed: SIGSEGV" in out


@pytest.mark.parametrize(("strict", "code"), [([], 0), (["--strict"], 4)])
def test_fallback_is_never_silent(edgeopt, null_model, null_data, strict, code):
    model = null_model(fallen=["Foo: foo"], nodes=5)
    found, out, err = edgeopt("bench", model, "--data", null_data, "--rounds", 6, *strict)
    assert found == code
    assert ("1 of 5 nodes fell back from null" in out) == (code == 0)
    assert ("1 of 5 nodes do not run on null" in err) == (code == 4)


PROGRAM = """import os, sys, numpy as np
x = np.load(os.environ["EDGEOPT_DATA"])["x"]
print("ready", flush=True)
for line in sys.stdin:
    x[int(line.split()[1])].sum()
    print("done", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_stopped_it_leaves_no_process_and_no_folder(start, ends, null_model, null_data, tmp_path, number, code):
    (tmp_path / "mine.py").write_text(PROGRAM)
    run = start(
        "bench", null_model(latency_ms=20), "--data", null_data, "--json", "--rounds", 1000,
        "--baseline-command", f"'{sys.executable}' mine.py", "--save", "run.json",
    )  # fmt: skip
    run.first_line_with('"latency_ms"')
    children = psutil.Process(run.process.pid).children(recursive=True)
    assert any("mine.py" in " ".join(child.cmdline()) for child in children)
    begin = time.monotonic()
    run.process.send_signal(number)
    found, out, err = run.finish()
    assert time.monotonic() - begin < 60
    assert (found, err) == (code, "")
    assert isinstance(events.decode(out.splitlines()[-1]), events.Error)
    assert ends(*(child.pid for child in children))
    assert list(run.temporary.iterdir()) == []
    assert not (tmp_path / "run.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compare", "a.json", "b.json"], "unexpected extra argument"),
        (["--suite", "models"], "No such option: --suite"),
    ],
)
def test_removed_commands_and_options_are_wrong_usage(edgeopt, arguments, says):
    code, _, err = edgeopt("bench", *arguments)
    assert code == 2
    assert says in err
