import json
import shlex
import shutil
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

import edgeopt
from edgeopt.commands.bench.api import bench as bench_in_python
from edgeopt.commands.bench.bench import bench
from edgeopt.commands.bench.request import Request
from edgeopt.commands.bench.saved import read_result
from edgeopt.errors import (
    BundleError,
    ConstraintError,
    DataError,
    EdgeoptError,
    MissingError,
    ModelError,
    UsageError,
)
from edgeopt.events import Log, Metric, Progress, ignore
from edgeopt.measure.report import ContestReport, Limits
from edgeopt.measure.stats import TOO_FEW, TOO_NOISY


@pytest.fixture
def data(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.ones((4, 8), np.float32))
    return tmp_path / "d.npz"


def test_a_bundle_against_its_model(conv_bundle, conv_model, tmp_path):
    said = []
    request = Request(
        str(conv_bundle),
        (str(conv_model),),
        rounds=6,
        save=tmp_path / "run.json",
    )
    found = bench(request, said.append)
    assert [side.name for side in found.sides] == ["conv.edgeopt", "conv.onnx"]
    assert [side.kind for side in found.sides] == ["bundle", "model"]
    for side in found.sides:
        assert 0 < side.figures.p50_ms <= side.figures.p90_ms <= side.figures.p99_ms
        assert side.memory.peak_bytes > 2**20
    (comparison,) = found.comparisons
    if comparison.speedup is None:  # beside other tests, six rounds may leave the interval too wide
        assert comparison.verdict in {TOO_NOISY, TOO_FEW}
    else:
        assert 3 <= comparison.speedup.rounds <= 6
    assert found.data == "the golden inputs of conv.edgeopt (3 samples)"
    assert {"cpu", "host"} <= set(found.device)
    assert {"edgeopt", "onnxruntime"} <= set(found.versions)
    assert found.measured_at.endswith("+00:00")
    assert {event.subject for event in said if isinstance(event, Metric)} >= {"conv.edgeopt", "conv.onnx"}
    phases = [event.phase for event in said if isinstance(event, Progress)]
    assert "loading" not in phases[phases.index("measuring") :]
    assert msgspec.convert(read_result(tmp_path / "run.json"), ContestReport) == found


def test_the_same_model_with_another_backend_and_with_options(conv_model):
    request = Request(str(conv_model), ("openvino-cpu", "threads=1"), rounds=6, threads="2")
    found = bench(request, ignore)
    assert [side.name for side in found.sides] == [
        "conv.onnx",
        "conv.onnx · openvino-cpu",
        "conv.onnx · threads=1",
    ]
    assert [side.backend for side in found.sides] == ["onnxruntime-cpu", "openvino-cpu", "onnxruntime-cpu"]
    # What is said for all holds where a side does not say it itself.
    assert [side.options["threads"] for side in found.sides] == [2, 2, 1]
    assert [c.second for c in found.comparisons] == ["conv.onnx · openvino-cpu", "conv.onnx · threads=1"]
    assert found.data == "16 generated samples"


def test_a_slower_model_is_seen_as_slower(null_model, data):
    fast, slow = null_model("fast", latency_ms=1), null_model("slow", latency_ms=10)
    found = bench(Request(str(slow), (str(fast),), data=data, rounds=6), ignore)
    (comparison,) = found.comparisons
    assert comparison.verdict in {"slower", TOO_NOISY}  # the second on a busy machine
    assert comparison.speedup is None or comparison.speedup.median < 0.5


@pytest.mark.processes
def test_a_side_that_crashes_is_a_result_beside_the_other(null_model, data):
    sound, crashing = null_model("sound"), null_model("crashing", crash="run")
    found = bench(Request(str(sound), (str(crashing),), data=data, rounds=6), ignore)
    assert found.sides[0].figures is not None
    assert "SIGSEGV" in found.sides[1].failure


@pytest.mark.processes
def test_a_program_by_the_same_rules(null_model, data, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os, sys, time, numpy as np\n"
        "x = np.load(os.environ['EDGEOPT_DATA'])['x']\n"
        "print('ready', flush=True)\n"
        "for line in sys.stdin:\n"
        "    x[int(line.split()[1])].sum(); time.sleep(0.01)\n"
        "    print('done', flush=True)\n"
    )
    command = shlex.join([sys.executable, str(tmp_path / "mine.py")])
    request = Request(str(null_model("fast", latency_ms=2)), (), command, data=data, rounds=6)
    found = bench(request, ignore)
    assert found.sides[1].kind == "command"
    assert found.sides[1].figures.p50_ms > 9
    assert found.comparisons[0].verdict in {"faster", TOO_NOISY}  # the second on a busy machine


def test_what_cannot_be_written_loses_nothing_else(null_model, data, tmp_path):
    model, said, unwritten = str(null_model("plain", latency_ms=1)), [], []
    full = Path("/dev/full")  # takes nothing, as a full disk does
    request = Request(model, data=data, rounds=6, save=full)
    assert bench(request, said.append, unwritten).sides[0].figures is not None
    assert unwritten == ["The report could not be written to '/dev/full': No space left on device."]
    assert [event.level for event in said if isinstance(event, Log)].count("warning") == 1


def test_a_report_does_not_replace_what_is_measured(null_model, data, tmp_path):
    model, other = null_model("plain", latency_ms=1), null_model("other", latency_ms=1)
    before = other.read_bytes(), data.read_bytes()
    for place in (model, other, data):
        with pytest.raises(UsageError, match="is an input"):
            bench(Request(str(model), against=(str(other),), data=data, rounds=6, save=Path(place)), ignore)
    assert (other.read_bytes(), data.read_bytes()) == before


def test_strict_fails_where_something_falls_back(null_model, data):
    model = null_model("half", fallen=["Foo: foo_1", "Bar: bar_1"], nodes=10, latency_ms=1)
    found = bench(Request(str(model), data=data, rounds=6), ignore)
    assert found.sides[0].placement.fallen == ("Foo: foo_1", "Bar: bar_1")
    assert found.sides[0].placement.time_ms == pytest.approx({"null": 0.8, "elsewhere": 0.2})
    with pytest.raises(ConstraintError) as raised:
        bench(Request(str(model), data=data, strict=True, rounds=6), ignore)
    assert "2 of 10 nodes do not run on null but on elsewhere: Foo: foo_1, Bar: bar_1" in raised.value.message
    assert raised.value.exit_code == 4


@pytest.fixture
def wrong(tmp_path, bundle, conv_model, matmul_model, null_model):
    """A request for each thing that cannot be measured."""
    null = str(null_model("plain"))
    elsewhere = tmp_path / "z.npz"
    np.savez(tmp_path / "z.npz", z=np.ones(3))
    good = tmp_path / "x.npz"
    np.savez(tmp_path / "x.npz", x=np.ones((4, 8), np.float32))
    damaged = tmp_path / "damaged.edgeopt"
    shutil.copytree(bundle, damaged)
    (damaged / "ledger.json").write_text("")
    library = (str(tmp_path / "x.npz"),)
    return {
        "missing": Request(str(tmp_path / "nowhere.onnx")),
        "damaged": Request(str(damaged)),
        "wrong data": Request(str(conv_model), data=elsewhere),
        "no data": Request(null),
        "no data for a program": Request(baseline_command="python mine.py"),
        "other inputs": Request(str(conv_model), (str(matmul_model),)),
        "wrong format": Request(f"{conv_model}@null", data=good),
        "wrong option": Request(null, options=("thread=1",), data=good),
        "wrong value": Request(f"{conv_model}@onnxruntime-cpu,graph_level=best"),
        "wrong threads": Request(str(conv_model), threads="many"),
        "a bundle's threads": Request(str(bundle), threads="1"),
        "no library": Request(str(conv_model), custom_ops=("no.so",)),
        "a bundle's library": Request(str(bundle), custom_ops=library),
        "crashing": Request(str(null_model("crashing", crash="run")), data=good),
        "nobody": Request(url="http://127.0.0.1:9/v2/models/x"),
        "a program that ends": Request(baseline_command=shlex.join([sys.executable, "-c", "1"]), data=good),
        "nothing": Request(),
        "no place": Request(null, data=good, save=tmp_path / "nowhere" / "run.json"),
        "duty": Request(null, data=good, duty="colder"),
        "paced without rate": Request(null, data=good, duty="paced"),
        "rate without paced": Request(null, data=good, rate_per_s=3),
        "levels": Request(null, data=good, concurrency="1,many"),
        "two duties": Request(null, data=good, duty="cold", concurrency="1,2"),
        "cold within a time": Request(null, data=good, duty="cold", time_limit_s=5),
        "several within a time": Request(null, data=good, processes="1,2", time_limit_s=5),
        "cold and slow to load": Request(null, data=good, load_timeout_s=90, duty="cold"),
        "sustained rounds": Request(null, data=good, duty="sustained", rounds=9),
        "cold counters": Request(null, data=good, counters=True, duty="cold"),
        "swept counters": Request(null, data=good, counters=True, sweep="latency_ms=1,2"),
        "a program's backend": Request(baseline_command="python mine.py", data=good, backend="null"),
        "a program's option": Request(baseline_command="python mine.py", data=good, options=("threads=1",)),
        "a program's library": Request(baseline_command="python mine.py", data=good, custom_ops=(str(good),)),
        "a strict program": Request(baseline_command="python mine.py", data=good, strict=True),
        "two subjects": Request(null, url="http://127.0.0.1:9/v2/models/x"),
    }


@pytest.mark.processes
@pytest.mark.parametrize(
    ("kind", "error", "says"),
    [
        ("missing", ModelError, "no model or bundle"),
        ("damaged", BundleError, "ledger"),
        ("wrong data", DataError, "no array for the model's input 'x'"),
        ("no data", DataError, "cannot be generated"),
        ("no data for a program", DataError, "cannot be generated: it does not declare them"),
        ("other inputs", ModelError, "'x' is float32 [batch, 3, 16, 16] and float32 [batch, 32]"),
        ("wrong format", UsageError, "null does not read 'conv.onnx'"),
        ("wrong option", UsageError, "no option 'thread'"),
        ("wrong value", UsageError, "graph_level"),
        ("wrong threads", UsageError, "many"),
        ("a bundle's threads", UsageError, "--threads is for models"),
        ("no library", UsageError, "no library of custom operators at 'no.so'"),
        ("a bundle's library", UsageError, "takes no custom operators"),
        ("crashing", EdgeoptError, "SIGSEGV"),
        ("nobody", MissingError, "listens"),
        ("a program that ends", EdgeoptError, "before it printed 'ready'"),
        ("nothing", UsageError, "Missing argument"),
        ("no place", UsageError, "does not exist"),
        ("duty", UsageError, "no duty 'colder'"),
        ("paced without rate", UsageError, "needs a rate"),
        ("rate without paced", UsageError, "--rate needs --duty paced"),
        ("levels", UsageError, "numbers from 1 to 256"),
        ("two duties", UsageError, "exclude each other"),
        ("cold within a time", UsageError, "--time-limit is for interleaved contests"),
        ("several within a time", UsageError, "--time-limit is for interleaved contests"),
        ("cold and slow to load", UsageError, "--load-timeout is for interleaved contests"),
        ("sustained rounds", UsageError, "--rounds is for measurements in rounds"),
        ("cold counters", UsageError, "--counters is for interleaved contests"),
        ("swept counters", UsageError, "--counters is for interleaved contests"),
        ("a program's backend", UsageError, "--backend and --option are for models"),
        ("a program's option", UsageError, "--backend and --option are for models"),
        ("a program's library", UsageError, "--custom-ops is for models"),
        ("a strict program", UsageError, "--strict is for models"),
        ("two subjects", UsageError, "The first side and --url exclude"),
    ],
)
def test_what_cannot_be_measured(kind, error, says, wrong, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with pytest.raises(error) as raised:
        bench(wrong[kind], ignore)
    assert says in raised.value.message
    assert raised.value.hint
    assert raised.value.message.count("\n") == 0
    assert not any(Path(temporary).iterdir())


@pytest.mark.parametrize("duty", ["steady", "cold"])
def test_a_copy_of_the_model_is_measured_and_not_compared(duty, conv_model, tmp_path):
    """Two processes of one model differ by a few per cent, and a limit would judge that."""
    copy = tmp_path / "copy.onnx"
    shutil.copyfile(conv_model, copy)
    found = bench(Request(str(copy), (str(conv_model),), rounds=4, duty=duty, max_slowdown="1%"), ignore)
    assert len(found.sides) == 2
    (comparison,) = found.comparisons
    assert (comparison.verdict, comparison.speedup.median) == ("identical", 1.0)
    (check,) = found.judgement.checks
    assert check.passed
    assert check.sentence.endswith("is the same deployment.")


def test_the_same_model_with_other_options_is_compared(conv_model):
    found = bench(Request(f"{conv_model}@onnxruntime-cpu,threads=1", (str(conv_model),), rounds=4), ignore)
    assert found.comparisons[0].verdict != "identical"


def test_two_models_in_turns_from_python(null_model, tmp_path):
    feeds = ({"x": np.full((1, 8), k, np.float32)} for k in range(3))
    said = []
    report = edgeopt.bench(
        null_model("fast", latency_ms=1), against=null_model("slow", latency_ms=4), data=feeds, rounds=8,
        save=tmp_path / "run.json", emit=said.append,
    )  # fmt: skip
    assert [side.name for side in report.sides] == ["fast.null.json", "slow.null.json"]
    assert report.comparisons[0].verdict != "slower"
    assert "3 samples" in report.data
    assert said
    assert msgspec.convert(read_result(tmp_path / "run.json"), ContestReport) == report


def test_what_is_asked_is_what_the_command_line_would_read(monkeypatch):
    asked = []
    monkeypatch.setattr("edgeopt.commands.bench.api.measure", lambda request, _emit: asked.append(request))
    bench_in_python(
        "m.onnx", against=["a.onnx", "threads=1"], options={"threads": 2, "spin": False}, concurrency=(1, 2)
    )
    (request,) = asked
    assert (request.against, request.concurrency) == (("a.onnx", "threads=1"), "1,2")
    assert request.options == ("threads=2", "spin=off")


def test_unknown_and_missing_arguments_are_refused():
    with pytest.raises(UsageError, match="Missing argument"):
        edgeopt.bench()
    with pytest.raises(TypeError, match="nonsense"):
        edgeopt.bench("m.onnx", nonsense=1)


def test_wrong_wishes_are_said_before_anything_runs(tmp_path):
    (tmp_path / "m.null.json").write_text(json.dumps({}))
    with pytest.raises(UsageError, match="needs a rate"):
        edgeopt.bench(tmp_path / "m.null.json", duty="paced")
    with pytest.raises(UsageError, match="--rounds must be from 6 to 1000, not 0"):
        edgeopt.bench(tmp_path / "m.null.json", rounds=0)


@pytest.mark.slow
def test_limits_are_judged_and_nothing_is_raised(null_model):
    feeds = [{"x": np.full((1, 8), k, np.float32)} for k in range(3)]
    report = edgeopt.bench(
        null_model("slow", latency_ms=4), against=null_model("fast", latency_ms=1), data=feeds,
        max_slowdown=0.02, min_speedup="1.1x",
    )  # fmt: skip
    assert report.judgement.limits == Limits(0.02, 1.1)
    assert [each.state for each in report.judgement.checks] == ["broken", "broken"]
    assert not report.judgement.passed
    with pytest.raises(UsageError, match="no other side"):
        edgeopt.bench(null_model("slow"), max_slowdown=0.02)
