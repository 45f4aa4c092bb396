import json
import os
import sys
import time

import msgspec
import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples, check_samples, open_samples, save_samples
from edgeopt.errors import TrialError
from edgeopt.measure.contender import ask
from edgeopt.measure.messages import (
    Describe,
    Described,
    Failed,
    Load,
    Loaded,
    Outputs,
    Saved,
    Time,
    Timed,
    Watch,
    decode_answer,
)
from edgeopt.measure.trial import ROTATION, read_outputs, rotated

PARENT = """
import sys
from edgeopt.workers.host import LocalHost

trial = LocalHost().start()
for line in sys.argv[1:]:
    trial.send(line.encode())
if len(sys.argv) > 2:
    trial.receive(20)
print(trial.pid, flush=True)
sys.stdin.read()
"""


def plain(request):
    return msgspec.json.encode(request).decode()


@pytest.fixture
def trial(start, load_null):
    """A trial that has loaded a null model."""

    def loaded(**behaviour):
        child = start()
        answer = ask(child, load_null(**behaviour))
        assert isinstance(answer, Loaded), answer
        return child

    return loaded


def test_loading_tells_what_the_model_takes_and_costs(start, load_null):
    answer = ask(start(), load_null(load_ms=30, latency_ms=20))
    assert isinstance(answer, Loaded)
    assert [(i.name, i.dtype, i.shape) for i in answer.inputs] == [("x", "float32", ("batch", 3))]
    assert [o.name for o in answer.outputs] == ["y"]
    assert 30 <= answer.load_ms < 1000
    assert 20 <= answer.first_run_ms < 1000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory by phase here")
def test_memory_is_told_by_phase(trial):
    memory = ask(trial(), Time(1)).memory
    phases = ("start", "import", "load", "first_run", "steady")
    sizes = [getattr(memory, f"{phase}_bytes") for phase in phases]
    assert all(10e6 < size < 1e9 for size in sizes)
    highest = [memory.import_peak_bytes, memory.load_peak_bytes, memory.first_run_peak_bytes, memory.peak_bytes]
    assert highest == sorted(highest)
    assert memory.peak_bytes >= max(sizes)
    assert memory.device is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory by phase here")
def test_the_models_own_need_is_net_of_the_runtime_and_of_the_samples(start, conv_model, tmp_path):
    info = backend_named("onnxruntime-cpu").load(conv_model, {}).inputs
    heavy = check_samples({"x": np.ones((16, 1000, 3, 16, 16), np.float32)}, info)
    save_samples(heavy, tmp_path / "heavy")
    loaded = ask(start(), Load("onnxruntime-cpu", str(conv_model), {"threads": 1}, str(tmp_path / "heavy")))
    assert isinstance(loaded, Loaded), loaded
    # The samples hold 47 MiB, the runtime more than 10, and the model next to nothing until it runs.
    assert loaded.memory.start_bytes > heavy.arrays["x"].nbytes
    assert loaded.memory.import_bytes - loaded.memory.start_bytes > 10e6
    assert loaded.memory.load_bytes - loaded.memory.import_bytes < 20e6


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory by phase here")
@pytest.mark.cold
def test_bundle_adds_the_memory_of_its_model(start, conv_model, conv_bundle, tmp_path):
    info = backend_named("onnxruntime-cpu").load(conv_model, {}).inputs
    save_samples(check_samples({"x": np.ones((2, 3, 16, 16), np.float32)}, info), tmp_path)
    sides = (("onnxruntime-cpu", conv_model), ("bundle", conv_bundle))
    found = [ask(start(), Load(backend, str(path), {}, str(tmp_path))).memory for backend, path in sides]
    model, bundle = (memory.import_bytes - memory.start_bytes for memory in found)
    assert abs(bundle - model) < 3 << 20
    model, bundle = (memory.start_bytes for memory in found)
    assert abs(bundle - model) < 2 << 20, "modules that read bundles take 5 MiB, and all trials import them"
    assert all(memory.added_bytes == memory.peak_bytes - memory.start_bytes for memory in found)


def test_a_slice_gives_the_time_of_each_run(trial):
    answer = ask(trial(latency_ms=4), Time(100))
    assert isinstance(answer, Timed)
    assert 3 <= len(answer.latencies_ms) <= 25
    assert all(taken >= 4 for taken in answer.latencies_ms)
    assert np.median(answer.latencies_ms) < 20


def test_a_slice_shorter_than_a_run_still_measures_one(trial):
    assert len(ask(trial(latency_ms=30), Time(1)).latencies_ms) == 1


def test_saved_outputs_are_those_of_the_samples(trial, load_null, samples, tmp_path):
    out = str(tmp_path / "outputs.npz")
    assert ask(trial(), Outputs(2, 3, out)) == Saved(out)
    session = backend_named("null").load(tmp_path / "model.null.json", {})
    given = open_samples(samples)
    for position, outputs in enumerate(read_outputs(tmp_path / "outputs.npz")):
        wanted = session.run(given.feeds(2 + position))
        assert list(outputs) == ["y"]
        assert np.array_equal(outputs["y"], wanted["y"])
    assert position == 2


def test_many_samples_keep_their_order_and_odd_names_survive(tmp_path, start):
    name = "layer/out:0 é"
    port = {"dtype": "float32", "shape": ["batch", 1]}
    model = {"inputs": [{"name": "x", **port}], "outputs": [{"name": name, **port}], "behaviour": "mix"}
    (tmp_path / "odd.null.json").write_text(json.dumps(model))
    info = backend_named("null").load(tmp_path / "odd.null.json", {}).inputs
    many = check_samples({"x": np.arange(ROTATION + 5, dtype=np.float32)[:, None]}, info)
    save_samples(many, tmp_path / "many")
    child, out = start(), tmp_path / "out.npz"
    ask(child, Load("null", str(tmp_path / "odd.null.json"), {}, str(tmp_path / "many")))
    ask(child, Outputs(0, len(many), str(out)))
    got = [run[name].item() for run in read_outputs(out)]
    assert got == pytest.approx(np.sin(np.arange(ROTATION + 5)), abs=1e-5)


def test_a_crash_while_loading_is_told_by_its_signal(start, load_null):
    with pytest.raises(TrialError, match=r"^crashed: SIGSEGV"):
        ask(start(), load_null(crash="load"))


def test_a_crash_while_running_is_told_by_its_signal(start, load_null):
    with pytest.raises(TrialError, match=r"^crashed: SIGSEGV"):
        ask(start(), load_null(crash="run"))


@pytest.mark.parametrize("moment", ["load", "run"])
def test_a_trial_that_hangs_is_killed_within_the_limit(start, load_null, ends, moment):
    child = start()
    with pytest.raises(TrialError, match=r"^hung: no answer within 1 s; it was killed$"):
        ask(child, load_null(hang=moment), timeout_s=1)
    assert ends(child.pid)


def test_a_flood_of_warnings_blocks_nobody(trial):
    answer = ask(trial(flood_stderr_bytes=3_000_000), Time(1))
    assert isinstance(answer, Timed)


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        (b"not json", "failed", "JSON is malformed"),
        (b'{"type": "dance"}', "usage", "no task 'dance'"),
        (b'{"type": "time"}', "failed", "slice_ms"),
        (b'{"type": "time", "slice_ms": 1}', "usage", "before a model was loaded"),
        (
            b'{"type": "describe", "backend": "null", "model_path": "none.null.json"}',
            "bad-model",
            "cannot be read",
        ),
        (b'{"type": "describe", "backend": "nul", "model_path": "x"}', "usage", "There is no backend 'nul'."),
        (b'{"type": "describe", "backend": "bundle", "model_path": "none.edgeopt"}', "", "none.edgeopt"),
    ],
)
def test_a_bad_request_gets_an_answer_and_the_next_one_too(start, load_null, line, code, part):
    child = start()
    child.send(line)
    answer = msgspec.json.decode(child.receive(20), type=Failed)
    assert part in answer.message
    assert code in answer.code
    assert isinstance(ask(child, load_null()), Loaded)


def test_a_planted_failure_is_an_answer_with_its_hint(start, load_null):
    answer = ask(start(), load_null(fail="run"))
    assert isinstance(answer, Failed)
    assert (answer.code, answer.hint) == ("bad-model", "Remove 'fail' from it.")
    assert "as planted" in answer.message


def test_a_model_can_be_described_without_running_it(start, load_null):
    wanted = load_null()
    answer = ask(start(), Describe(wanted.backend, wanted.model_path))
    assert isinstance(answer, Described)
    assert [i.name for i in answer.inputs]


def test_outputs_that_cannot_be_saved_are_a_failure(trial, tmp_path):
    answer = ask(trial(), Outputs(0, 1, str(tmp_path / "none" / "out.npz")))
    assert isinstance(answer, Failed)
    assert "FileNotFoundError" in answer.message


@pytest.mark.parametrize("hanging", [False, True], ids=["idle", "in a long run"])
def test_a_trial_ends_with_its_killed_parent(middle_process, load_null, ends, hanging):
    lines = [plain(load_null()), plain(load_null("long", latency_ms=600_000))][: 1 + hanging]
    told, parent = middle_process(PARENT, *lines)
    parent.kill()
    assert ends(int(told))


def test_a_trial_ends_when_its_stdin_closes_even_in_a_long_run(start, load_null, ends):
    child = start()
    child.send(msgspec.json.encode(load_null(latency_ms=600_000)))
    child._process.stdin.close()
    assert ends(child.pid)


def test_watching_tells_every_run_and_may_be_asked_ahead(trial):
    child = trial(latency_ms=4)
    for _ in range(3):
        child.send(plain(Watch(40.0)).encode())
    answers = [decode_answer(child.receive(20)) for _ in range(3)]
    runs = [np.frombuffer(answer.latencies_ms, "<f4") for answer in answers]
    assert all(len(taken) >= 1 and (taken >= 4).all() for taken in runs)
    # No gap between them: what the runs took is what went by.
    assert sum(map(np.sum, runs)) / 1e3 == pytest.approx(sum(a.seconds for a in answers), rel=0.2)


def test_watching_before_loading_is_refused(start):
    answer = ask(start(), Watch(10.0))
    assert isinstance(answer, Failed)
    assert "before a model was loaded" in answer.message


def test_a_slice_tells_when_it_was_and_the_throughput(trial):
    before = time.monotonic()
    answer = ask(trial(latency_ms=4), Time(100))
    assert before < answer.begin_s < time.monotonic()
    assert len(answer.starts_ms) == len(answer.latencies_ms)
    assert len(answer.latencies_ms) / answer.seconds <= 250


def test_several_threads_may_call_the_session_at_once(trial):
    child = trial(latency_ms=20)
    one, three = (ask(child, Time(200, threads)) for threads in (1, 3))
    assert len(three.latencies_ms) / three.seconds > 1.5 * len(one.latencies_ms) / one.seconds


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a process to some cores")
def test_a_trial_is_kept_to_its_cores_and_nobody_else_is(start, load_null):
    ours, child = os.sched_getaffinity(0), start()
    core = max(ours)
    assert isinstance(ask(child, msgspec.structs.replace(load_null(), cores=(core,))), Loaded)
    assert os.sched_getaffinity(child.pid) == {core}
    assert os.sched_getaffinity(0) == ours
    answer = ask(start(), msgspec.structs.replace(load_null(), cores=(core, 4095)))
    assert isinstance(answer, Failed)
    assert "core 4095 cannot be used here" in answer.message


def test_a_strict_trial_refuses_what_falls_back_and_another_one_tells_it(start, load_null):
    request = load_null(fallen=["Foo: bar"], nodes=3)
    assert ask(start(), request).placement.fallen == ("Foo: bar",)
    answer = ask(start(), msgspec.structs.replace(request, strict=True))
    assert isinstance(answer, Failed)
    assert "Foo" in answer.message


def test_a_bundle_takes_no_custom_operators(start, conv_bundle, samples):
    answer = ask(start(), Load("bundle", str(conv_bundle), {}, str(samples), custom_ops=("x.so",)))
    assert isinstance(answer, Failed)
    assert "A bundle takes no libraries of custom operators" in answer.message


def test_events_are_counted_or_it_is_said_why_not(start, load_null):
    child = start()
    loaded = ask(child, msgspec.structs.replace(load_null(latency_ms=1), counters=True))
    counted = ask(child, Time(60)).counters
    assert loaded.warnings or counted
    assert all(count >= 0 for count in counted.values())
    if "task_clock_ns" in counted:
        assert 1e6 < counted["task_clock_ns"] < 1e9


@pytest.mark.parametrize(("items", "count"), [(3, 16), (8 << 20, 8), (1 << 30, 1)])
def test_samples_in_turn_do_not_fill_the_memory(items, count):
    # As large as they say, without taking that memory.
    array = np.broadcast_to(np.float32(0), (40, items))
    assert rotated(Samples({"x": array}, {"x": 1})) == count
