import io
import time
from contextlib import closing
from types import SimpleNamespace

import msgspec
import numpy as np
import onnx
import onnx.parser
import pytest
from rich.console import Console

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.commands.cost.cost import of_bundle
from edgeopt.commands.cost.figures import times as speedup_words
from edgeopt.commands.optimize import optimize
from edgeopt.commands.report.report import gather, written
from edgeopt.data.samples import Samples
from edgeopt.errors import DataError, EdgeoptError, ModelError, StoppedError, UsageError
from edgeopt.events import Log, Progress, ignore
from edgeopt.graph.ledger import Change, LedgerEntry
from edgeopt.measure.messages import Memory
from edgeopt.measure.schedules import Schedule
from edgeopt.pipeline.builders.variants import inspect
from edgeopt.pipeline.inspect import incumbent_of
from edgeopt.pipeline.objectives import OBJECTIVES, ResourceLimits, excess, limits_from, objective_named
from edgeopt.pipeline.padding import graph_passes, kept_by, padding_note, skips_padding
from edgeopt.pipeline.race.race import race
from edgeopt.pipeline.request import time_limit_for
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.pipeline.stopping import Stop
from edgeopt.views.outcome import headline, show
from edgeopt.views.terminal import write
from edgeopt.views.words import milliseconds
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.result import comparison, read_result
from tests.conftest import limited, write_onnx


def test_arrays_from_python_under_any_name(tmp_path, models, quick_profile):
    import onnx

    node = onnx.helper.make_node("Relu", ["file"], ["y"])
    ports = [onnx.helper.make_tensor_value_info(name, 1, ["batch", 4]) for name in ("file", "y")]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    data = {"file": np.ones((2, 4), np.float32)}
    with pytest.raises(DataError, match="'file'"):
        optimize(tmp_path / "m.onnx", tmp_path / "out", data={"x": data["file"]}, profile=quick_profile)
    # The target is looked at after the data, so these were good.
    with pytest.raises(UsageError, match="no target 'nowhere'"):
        optimize(tmp_path / "m.onnx", tmp_path / "out", data=data, target="nowhere")


def test_texts_and_shapes_that_depend_on_the_sample(tmp_path, quick_profile):
    import onnx
    import onnx.parser

    text = "g (string[n] s, float[n] x) => (string[n] t, int64[1, m] y) { t = Identity(s) y = NonZero(x) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), tmp_path / "m.onnx")
    data = {"s": np.array([["a", "bc"]] * 8), "x": np.float32([[k % 2, 1] for k in range(8)])}
    out = tmp_path / "o.edgeopt"
    optimize(tmp_path / "m.onnx", out, data=data, profile=quick_profile, time_limit_s=1.0)
    assert {run["y"].shape for run in read_bundle(out).golden("outputs")} == {(1, 1), (1, 2)}
    assert check(out, ignore).accuracy_db == 200


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"out": "notes"}, UsageError, "is not a bundle"),
        ({"floor": "loud"}, UsageError, "not an accuracy floor"),
        ({"model": "nowhere.onnx"}, ModelError, "nowhere"),
    ],
)
def test_wrong_arguments_are_said_before_any_work(tmp_path, relu_model, options, error, says):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("mine")
    said = []
    given = {"model": relu_model, "out": "out.edgeopt", **options}
    with pytest.raises(error, match=says):
        optimize(tmp_path / given.pop("model"), tmp_path / given.pop("out"), emit=said.append, **given)
    assert len(said) <= 1
    assert [p.name for p in tmp_path.iterdir()] == ["notes"]
    assert (tmp_path / "notes/mine.txt").read_text() == "mine"


def test_a_model_that_draws_random_numbers_cannot_be_checked_and_is_refused(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) { r = RandomNormalLike(x)  y = Add(x, r) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "random.onnx")
    with pytest.raises(ModelError, match="draws random numbers: 1 RandomNormalLike") as raised:
        optimize(tmp_path / "random.onnx", tmp_path / "out.edgeopt", time_limit_s=5)
    assert "--allow-random accepts them if two runs give the same outputs" in raised.value.hint
    with pytest.raises(ModelError, match="Two runs on the same inputs differ"):
        optimize(tmp_path / "random.onnx", tmp_path / "out.edgeopt", time_limit_s=5, allow_random=True)
    assert not (tmp_path / "out.edgeopt").exists()


def test_types_that_numpy_does_not_know_are_refused(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (bfloat16[4] y) { y = Cast <to = 16> (x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "brain.onnx")
    with pytest.raises(ModelError, match="bfloat16"):
        optimize(tmp_path / "brain.onnx", tmp_path / "out.edgeopt", time_limit_s=5)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_that_is_none(tmp_path, seconds):
    with pytest.raises(UsageError, match="--time-limit must be"):
        optimize(tmp_path / "m.onnx", tmp_path / "out.edgeopt", time_limit_s=seconds)


def test_a_profile_limits_how_many_take_part(relu_model, tmp_path, quick_profile):
    few = tmp_path / "few.toml"
    few.write_text(limited(quick_profile.read_text(), 1, 3))
    outcome = optimize(relu_model, tmp_path / "out.edgeopt", profile=few)
    made = [variant.name for variant in outcome.variants if not variant.failure]
    assert [report.candidate.variant for report in outcome.candidates] == made
    assert all(report.candidate.options == {} for report in outcome.candidates)


@pytest.fixture(params=["with_data", "nothing_wins"])
def found(request):
    return request.getfixturevalue(request.param)


def test_report_terminal_cost_and_bundle_have_the_figures_of_the_outcome(found):
    outcome, proof = found.outcome, found.outcome.proof
    facts, evidence = gather(found.out, nodes=False), read_bundle(found.out).deployment.evidence
    assert (facts.speed.ratio, facts.speed.result.latency_ms) == (proof.speedup, proof.latency_ms)
    assert evidence.speedup == pytest.approx(proof.speedup.median, rel=1e-3)
    assert evidence.latency_ms == pytest.approx(proof.latency_ms, rel=1e-3)
    assert of_bundle(found.out).speedup.value == evidence.speedup
    assert proof.baseline_ms / proof.latency_ms == pytest.approx(proof.speedup.median)
    points = {point.name: point for point in facts.points}
    for report in outcome.candidates:
        point = points[report.candidate.name]
        assert point.ratio == report.speedup
        assert point.time_ms == pytest.approx(report.latency_ms)
        if report.speedup is not None:
            assert report.latency_ms == pytest.approx(proof.baseline_ms / report.speedup.median)


def test_the_winner_of_the_table_is_the_bundle_that_was_proved(found):
    outcome, proof = found.outcome, found.outcome.proof
    (winner,) = [each for each in outcome.candidates if each.status == "winner"]
    assert winner.candidate == outcome.winner
    assert (winner.speedup, winner.latency_ms, winner.memory) == (proof.speedup, proof.latency_ms, proof.memory)
    assert winner.accuracy_db == proof.accuracy_db
    text = io.StringIO()
    write(show(outcome), Console(file=text, width=250))
    first = next(line for line in text.getvalue().splitlines() if line.lstrip().startswith("1"))
    assert (str(proof.speedup) if winner.proved else "1.00x") in first


def test_the_app_shows_the_same(found):
    outcome, proof = found.outcome, found.outcome.proof
    result, board = read_result(msgspec.json.decode(msgspec.json.encode(outcome))), Board()
    board.finish(result)
    for report in outcome.candidates:
        row = board.rows[report.candidate.name]
        assert row.speedup == (report.speedup.median if report.speedup and report.speedup.usable else None)
        assert row.latency_ms == pytest.approx(report.latency_ms)
    if result.verdict == "faster":
        assert f"{proof.speedup.median:.2f}x" in headline(result)
        assert comparison(result)[0].after == milliseconds(proof.latency_ms)


def test_a_bundle_of_the_source_is_called_unchanged_and_nowhere_faster(nothing_wins):
    """A report once said "Faster" under "Undecided": of the model against itself."""
    text = written(gather(nothing_wins.out, nodes=False), "markdown")
    assert "The bundle runs the source model unchanged, so there is nothing to compare." in text
    assert "Faster:" not in text
    assert "interleaved rounds" not in text
    assert "The bundle runs the source model unchanged" in check(nothing_wins.out, ignore).speed_words
    assert speedup_words(of_bundle(nothing_wins.out).speedup) == "1.00x"


MIB = 2**20


@pytest.mark.parametrize(
    ("given", "takes", "says"),
    [
        ({}, {}, ""),
        ({"max_memory_mib": 64}, {"memory": Memory(peak_bytes=64 * MIB)}, ""),
        ({"max_memory_mib": 64}, {"memory": Memory(peak_bytes=65 * MIB)}, "65 MiB of memory; the limit is 64"),
        ({"max_memory_mib": 64}, {"memory": Memory()}, ""),
        ({"max_size_mib": 0.5}, {"size_bytes": MIB}, "its files have 1 MiB; the limit is 0.5"),
        ({"max_latency_ms": 2}, {"latency_ms": 2.5}, "a run takes 2.50 ms; the limit is 2.00 ms"),
        ({"max_latency_ms": 2, "max_size_mib": 3}, {"latency_ms": 1.0, "size_bytes": 2 * MIB}, ""),
    ],
)
def test_what_is_over_a_limit_is_said_in_its_unit(given, takes, says):
    found = excess(limits_from(**given), **takes)
    assert says in found
    assert bool(found) == bool(says)


def test_all_that_is_over_is_said():
    found = excess(ResourceLimits(1, 1, 1.0), Memory(peak_bytes=2), 2, 2.0)
    assert found.count("the limit is") == 3


@pytest.mark.parametrize("name", ["max_memory_mib", "max_size_mib", "max_latency_ms"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_nothing_can_keep_to_less_than_something(name, value):
    with pytest.raises(UsageError, match="not a possible limit"):
        limits_from(**{name: value})


RAN = SimpleNamespace(
    latencies_ms=[1.0] * 98 + [5.0, 9.0],
    memory=Memory(peak_bytes=3 * 2**20),
    loaded=SimpleNamespace(load_ms=20.0, first_run_ms=4.0),
    joules=[0.003, 0.004, 0.009],
)


@pytest.mark.parametrize(
    ("name", "figure", "shown"),
    [
        ("p99", 5.04, "5.04 ms"),
        ("memory", 3 * 2**20, "3 MiB"),
        ("size", 2**19, "0.5 MiB"),
        ("first-answer", 24.0, "24 ms"),
        ("energy", 0.004, "4 mJ"),
    ],
)
def test_each_is_one_figure_with_its_unit(name, figure, shown):
    objective = objective_named(name)
    found = objective.figure(RAN, 2**19)
    assert found == pytest.approx(figure)
    assert objective.shown(found) == shown


def test_contests_decide_latency_and_throughput():
    contested = ["latency", "throughput", "tokens-per-second", "first-token"]
    assert [each.name for each in OBJECTIVES if each.figure is None] == contested
    assert objective_named("throughput").shown(42_760.3) == "42,760 samples/s"
    assert [each.name for each in OBJECTIVES if each.of_time] == [*contested, "p99", "energy"]


def test_what_is_not_known_stays_so():
    nothing = SimpleNamespace(latencies_ms=[], memory=Memory(), joules=[])
    assert objective_named("energy").figure(nothing, 1) is None
    assert objective_named("p99").figure(nothing, 1) is None
    assert objective_named("memory").figure(nothing, 1) is None


def test_another_name_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="no objective 'memry'") as caught:
        objective_named("memry")
    assert "memory" in caught.value.hint


LENGTH = 64


def given(kept_places, mask="attention_mask"):
    masks = np.stack([(np.arange(LENGTH) < n).astype(np.int64) for n in kept_places])[:, None]
    samples = Samples({"ids": masks, mask: masks}, {"ids": 2, mask: 2})
    return tuple(TensorInfo(name, "int64", ("b", "n")) for name in samples.arrays), samples


def profile_with(passes):
    return SimpleNamespace(graph=SimpleNamespace(passes=passes))


@pytest.mark.parametrize(
    ("given", "share", "skips"),
    [
        (given([10, 20]), 0.375, True),  # of 64, 16 and 32
        (given([60, 64]), 1.0, False),
        (given([40, 50]), 0.875, False),
        (given([10, 20], mask="weights"), 1.0, False),
    ],
    ids=["padded", "full", "hardly", "no-mask"],
)
def test_padding_is_skipped_where_the_data_has_enough(given, share, skips):
    assert kept_by(*given) == share
    assert ("skip-padding" in graph_passes(profile_with("all"), share)) == skips


def test_the_passes_of_a_profile_stay_the_only_ones_besides():
    listed = profile_with(("fold-constants",))
    assert graph_passes(listed, 0.25) == ("fold-constants", "skip-padding")
    assert "fix-shapes" not in graph_passes(profile_with("all"), 1.0)


def test_what_was_rolled_back_is_not_told_as_done():
    done = LedgerEntry("skip-padding", applied=(Change("skips", ("m",)),), nodes_before=1, nodes_after=2)
    undone = LedgerEntry("skip-padding", nodes_before=1, nodes_after=1, rolled_back="it changes the results")
    assert skips_padding((done,))
    assert not skips_padding((undone,))
    assert "78 % of the data is padding" in padding_note(0.22)


def test_larger_models_get_more_time_up_to_ten_minutes():
    assert time_limit_for(0) == time_limit_for(10_000_000) == 60
    assert [time_limit_for(mb * 10**6) for mb in (30, 90, 110)] == pytest.approx([120, 240, 260])
    assert time_limit_for(10**10) == 600


def test_a_target_with_slow_cores_gets_longer():
    assert time_limit_for(0, 180) == 180
    assert time_limit_for(30_000_000, 180) == pytest.approx(240)
    assert time_limit_for(10**10, 900) == 900


def test_the_first_interrupt_counts_once_there_is_something_to_hand_out():
    stop = Stop()
    assert not stop.interrupt()
    assert not stop.is_set()
    stop.ready = True
    assert stop.interrupt()
    assert stop.is_set()


def test_a_race_that_is_stopped_has_just_enough_rounds_to_choose_by(track):
    entry, stop = track.enter("ab"), Stop()
    stop.set()
    turns = Schedule("many", (50,), 2, keeps=(0.0,))
    found = race(track.baseline, [entry], turns, ignore, "racing", time.monotonic() + 60, stop)
    assert found == [entry]
    assert len(entry.contender.slices_ms) == 2


@pytest.fixture
def slowed(tmp_path, monkeypatch, quick_profile):
    """What to search, where the cleaned model is surely faster than the source, with a cache of its own."""
    monkeypatch.setenv("EDGEOPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "50MB")
    # Softmax in its parts, which ONNX Runtime leaves as they are and the exact rewrites put together.
    nodes = []
    for k in range(4):
        x, y = f"y{k}" if k else "x", f"y{k + 1}" if k < 3 else "y"
        nodes += [
            ("ReduceMax", [x], [f"most{k}"], {"axes": [1]}),
            ("Sub", [x, f"most{k}"], [f"less{k}"], {}),
            ("Exp", [f"less{k}"], [f"exp{k}"], {}),
            ("ReduceSum", [f"exp{k}", "axes"], [f"sum{k}"], {}),
            ("Div", [f"exp{k}", f"sum{k}"], [y], {}),
        ]
    axes = {"axes": np.array([1], np.int64)}
    path = write_onnx(tmp_path / "m.onnx", nodes, axes, {"x": [64, 2048]}, {"y": [64, 2048]})
    profile = tmp_path / "quick.toml"
    profile.write_text(quick_profile.read_text().replace(', "lowered", "int8", "int8-dynamic"', ""))
    return {"model": path, "out": tmp_path / "out.edgeopt", "profile": profile, "time_limit_s": 60}


@pytest.mark.timing
def test_what_is_best_when_it_is_stopped_is_proved_handed_out_and_not_kept_as_the_end(slowed):
    stop, said = Stop(), []

    def tell(event):
        said.append(event)
        if isinstance(event, Progress) and event.phase == "racing":
            stop.set()

    outcome = optimize(**slowed, stop=stop, emit=tell)
    assert outcome.verdict == "faster"
    assert outcome.winner.variant == "cleaned"
    assert outcome.proof.speedup.low > 1
    assert "The search was stopped after" in outcome.cut_short
    assert outcome.summary.endswith(outcome.cut_short)
    assert read_bundle(slowed["out"]).deployment.summary == outcome.summary
    assert outcome.winner.name in outcome.front
    assert any(isinstance(event, Log) and event.message.startswith("Stopping: ") for event in said)
    assert "tuning" not in {getattr(event, "phase", "") for event in said}
    # A second one searches; and while nobody but the source takes part there is nothing to hand out.
    stop.clear()
    again = []

    def stop_at_once(event):
        again.append(event)
        if isinstance(event, Progress) and event.phase == "making variants":
            stop.set()

    with pytest.raises(StoppedError, match="nothing is proved faster yet") as caught:
        optimize(**{**slowed, "out": slowed["out"].with_name("b.edgeopt")}, stop=stop, emit=stop_at_once)
    assert (caught.value.exit_code, caught.value.code) == (130, "cancelled")
    assert not slowed["out"].with_name("b.edgeopt").exists()


def test_what_cannot_run_or_is_of_another_model_is_refused(conv_bundle, tmp_path):
    model = write_onnx(tmp_path / "m.onnx", [("Relu", ["z"], ["y"], {})], {}, {"z": [1, 4]}, {"y": [1, 4]})
    other = write_onnx(tmp_path / "o.onnx", [("Relu", ["z"], ["p"], {})], {}, {"z": [1, 4]}, {"p": [1, 4]})
    large = write_onnx(tmp_path / "l.onnx", [("Relu", ["z"], ["y"], {})], {}, {"z": [1, 9]}, {"y": [1, 9]})
    profile = tmp_path / "today.toml"
    profile.write_text("")
    host, samples = LocalHost(tmp_path), tmp_path / "samples"
    with closing(WorkerClient(LocalHost(tmp_path))) as client:
        facts = inspect(client, model, samples, 1)
        for given, said in (
            (conv_bundle, r"'conv\.edgeopt' takes x, but the model takes z"),
            (other, r"'o\.onnx' gives p, but the model gives y"),
            (large, r"The baseline 'l\.onnx' cannot run the samples: .*\[1, 9\]"),
            (profile, r"'today\.toml' is a deployment profile, which cannot run"),
            (tmp_path / "no.onnx", r"There is nothing at '.*no\.onnx'"),
        ):
            place = tmp_path / given.stem
            place.mkdir()
            runner = TrialRunner(host, place, samples)
            with pytest.raises(EdgeoptError, match=said) as caught:
                incumbent_of(given, model, facts, runner, client)
            assert caught.value.exit_code in {2, 3}
