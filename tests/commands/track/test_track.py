"""`edgeopt track`: the params, metrics, tags and files of the runs that it logs."""

import io
import json
import sys
from types import SimpleNamespace

import msgspec
import pytest

from edgeopt.cli.main import run
from edgeopt.commands.track.request import TrackRequest
from edgeopt.commands.track.runs import STDIN, runs_in
from edgeopt.commands.track.track import track
from edgeopt.errors import InputError, MissingError
from edgeopt.events import Error, Progress, Result, encode, ignore
from edgeopt.hw.device import fingerprint
from edgeopt.lab.records import CellKey, LabCell, LabRace, LabResults, write_results
from edgeopt.measure.report import Comparison, ContestReport, Figures, SideReport
from edgeopt.measure.stats import Interval
from edgeopt.measure.workloads.records import GenerateReport, GenerateSide
from edgeopt.version import __version__
from tests.commands.report.evidence import outcome, quantized
from tests.conftest import this_device

SPEEDUP = Interval(2.0, 1.9, 2.1, 20)
KEY = CellKey("a" * 64, "", ("--time-limit", "5"), ("", "", ""), "1.2")


@pytest.fixture
def lines(tmp_path):
    """Writes results as the lines of `--json`."""

    def write(*results):
        path = tmp_path / "lines.jsonl"
        found = [Result(kind, msgspec.to_builtins(each)) for kind, each in results]
        path.write_text("".join(f"{encode(each)}\n" for each in (Progress("racing"), *found)))
        return path

    return write


def logged(store, *paths, **options):
    return track(TrackRequest(paths, to=store.uri, **options), ignore)


def side(name, p50_ms):
    figures = Figures(9, p50_ms, p50_ms, p50_ms, p50_ms, p50_ms, 0.0, p50_ms, p50_ms, 1e3 / p50_ms)
    return SideReport(name, f"models/{name}.onnx", "model", "null", {"threads": 2}, figures)


def bench():
    comparisons = (
        Comparison("new", "old", SPEEDUP, "faster"),
        Comparison("new", "other", None, "no difference seen"),
    )
    sides = (side("new", 1.0), side("old", 2.0), side("other", 1.0))
    versions = {"edgeopt": "1.2"}
    return ContestReport(
        sides, comparisons, device={"cpu": "c"}, versions=versions, measured_at="2026-01-01T00:00:00Z"
    )


def cell(device, **more):
    made = LabCell(
        "small", device, "done", KEY, fingerprint={"cpu": "c"}, winner="int8 · null", begin_s=5, end_s=9
    )
    return msgspec.structs.replace(made, **more)


def test_search_is_logged(store, lines):
    logged(store, lines(("optimize", outcome())), experiment="nightly")
    info, data, files = store.runs("nightly")["conv.onnx"]
    assert info.status == "FINISHED"
    assert data.params["winner"] == "int8 · openvino-cpu · precision=f32 · threads=1"
    assert data.params["options"] == "precision=f32 threads=1"
    assert (data.params["model_digest"], data.params["target"]) == ("0" * 64, "quick")
    assert this_device().cpu.simd_level in data.params["device"]
    speedup = outcome().proof.speedup
    assert data.metrics["latency_ms"] == 0.8
    assert [data.metrics[f"speedup{end}"] for end in ("", "_low", "_high")] == [
        speedup.median,
        speedup.low,
        speedup.high,
    ]
    assert (data.metrics["accuracy_db"], data.metrics["peak_memory_mib"]) == (33.0, 110.0)
    assert data.tags["edgeopt.logged_by"] == __version__
    assert data.tags["edgeopt.device.cpu"] == fingerprint(this_device())["cpu"]
    assert json.loads(files["optimize.json"])["model"] == "conv.onnx"


def test_quantization_is_logged(store, lines):
    found = msgspec.structs.replace(quantized(), model="/home/someone/conv.onnx", float_ms=2.8)
    logged(store, lines(("quantize", found)))
    _, data, _ = store.runs()["conv.onnx"]
    assert data.metrics["latency_ms"] == pytest.approx(2.0)
    assert (data.metrics["speedup"], data.metrics["source_speedup"], data.metrics["accuracy_db"]) == (
        1.4,
        2.0,
        34.5,
    )
    assert (data.params["method"], data.params["model"]) == ("plan", "conv.onnx")


def test_each_comparison_of_a_bench_is_a_run(store, lines):
    logged(store, lines(("bench", bench())))
    runs = store.runs()
    assert set(runs) == {"new.onnx against old", "new.onnx against other"}
    info, data, _ = runs["new.onnx against old"]
    assert info.start_time == 1767225600000
    assert (data.metrics["latency_ms"], data.metrics["against_ms"], data.metrics["speedup_low"]) == (1.0, 2.0, 1.9)
    assert (data.tags["edgeopt.version"], data.tags["edgeopt.device.cpu"]) == ("1.2", "c")
    assert "speedup" not in runs["new.onnx against other"][1].metrics


def test_answers_of_language_models_are_logged(lines):
    sides = (GenerateSide("new", 9, 40.0, 12.5, 80.0), GenerateSide("old", 9, 60.0, 25.0, 40.0))
    compared = (Comparison("new", "old", SPEEDUP, "faster"),)
    report = GenerateReport(sides=sides, prompt_tokens=64, new_tokens=32, comparisons=compared)
    (run,) = runs_in(lines(("bench", report)))
    assert run.params["duty"] == "generate"
    assert (run.metrics["first_token_ms"], run.metrics["tokens_per_s"]) == (40.0, 80.0)
    assert run.metrics["speedup"] == SPEEDUP.median


def test_cells_of_a_lab_are_logged_with_their_evidence(store, conv_bundle, tmp_path):
    race = LabRace("d", "broken", "slower", Interval(0.9, 0.88, 0.92, 20))
    cells = (
        cell("east", bundle="east.edgeopt", speedup=SPEEDUP, latency_ms=1.5, accuracy_db=40.0, race=race),
        cell("west", status="failed", reason="It is away."),
        cell("north", status="waiting"),
    )
    (tmp_path / "east.edgeopt").symlink_to(conv_bundle)
    write_results(LabResults("lab.toml", ("small",), ("east", "west", "north"), cells), tmp_path)
    logged(store, tmp_path)
    runs = store.runs()
    assert set(runs) == {"small on east", "small on west"}
    info, data, files = runs["small on east"]
    assert (info.start_time, info.end_time) == (5000, 9000)
    assert (data.params["device"], data.params["options"]) == ("east", "--time-limit 5")
    assert (data.metrics["speedup"], data.metrics["speedup_over_last"]) == (2.0, 0.9)
    assert data.metrics["size_mib"] > 0
    assert data.tags["edgeopt.limits"] == "broken"
    assert set(files) == {"cell.json", "deployment.toml"}
    info, data, _ = runs["small on west"]
    assert (info.status, data.tags["edgeopt.reason"]) == ("FAILED", "It is away.")


def test_bundle_is_logged(store, conv_bundle):
    logged(store, conv_bundle)
    info, data, files = store.runs()["conv"]
    assert info.start_time == 1767225600000
    assert (data.params["backend"], data.params["options"]) == ("onnxruntime-cpu", "threads=1")
    assert (data.metrics["latency_ms"], data.metrics["speedup_high"], data.metrics["accuracy_db"]) == (
        1.0,
        2.1,
        200.0,
    )
    assert data.tags["edgeopt.version"] == "0"
    assert set(files) == {"deployment.toml"}


def test_record_is_logged_once(store, lines, tmp_path):
    lab = LabResults("lab.toml", ("small",), ("east",), (cell("east"),))
    kept = msgspec.structs.replace(lab, cells=(cell("east", kept=True),))
    assert [each.new for each in logged(store, lines(("lab", lab))).runs] == [True]
    assert [each.new for each in logged(store, lines(("lab", kept))).runs] == [False]
    assert store.statuses() == ["FINISHED"]


def test_run_that_broke_off_is_logged_again(store, lines, monkeypatch):
    def break_off(*_):
        raise ConnectionError("gone")

    path = lines(("bench", bench()))
    client = sys.modules["mlflow.tracking"].MlflowClient
    with monkeypatch.context() as patch:
        patch.setattr(client, "log_text", break_off)
        with pytest.raises(ConnectionError):
            logged(store, path)
    assert [each.new for each in logged(store, path).runs] == [True, True]
    assert store.statuses() == ["FINISHED", "FINISHED", "RUNNING"]


def test_stdin_is_read(lines, monkeypatch):
    content = lines(("optimize", outcome())).read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert [each.name for each in runs_in(STDIN)] == ["conv.onnx"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (encode(Error("missing", "It is away.")), "failed: It is away"),
        (encode(Result("probe", {})), "no result to log"),
        (encode(Result("optimize", {})), "cannot be read"),
        ("{", "not a record"),
    ],
)
def test_records_without_a_result_are_refused(content, reason, tmp_path):
    (tmp_path / "lines").write_text(content)
    with pytest.raises(InputError, match=reason):
        runs_in(tmp_path / "lines")


def test_empty_address_is_refused(lines, capfd):
    assert run(["track", str(lines(("bench", bench()))), "--to", ""]) == 2
    assert "--to is empty" in capfd.readouterr().err


def test_missing_library_is_named(lines, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    assert run(["track", str(lines(("bench", bench()))), "--to", "http://127.0.0.1:9"]) == 5
    assert "pip install mlflow-skinny" in capfd.readouterr().err


def test_file_store_that_mlflow_refuses_is_an_error_with_the_variable(lines, tmp_path, monkeypatch):
    pytest.importorskip("mlflow.tracking", reason="mlflow-skinny, which is optional, is not installed")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    with pytest.raises(MissingError, match="maintenance mode") as caught:
        track(TrackRequest((lines(("bench", bench())),), to=str(tmp_path / "mlruns")), ignore)
    assert "MLFLOW_ALLOW_FILE_STORE=true" in caught.value.hint


def test_server_that_does_not_answer_is_an_error(lines, monkeypatch):
    pytest.importorskip("mlflow.tracking", reason="mlflow-skinny, which is optional, is not installed")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(MissingError, match=r"http://127\.0\.0\.1:9"):
        track(TrackRequest((lines(("bench", bench())),), to="http://127.0.0.1:9"), ignore)


def test_command_shows_and_prints_runs(store, conv_bundle, capfd):
    command = ["track", str(conv_bundle), "--to", store.uri]
    assert run([*command, "--json"]) == 0
    printed = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    data = printed[-1]["data"]
    assert [(each["name"], each["new"]) for each in data["runs"]] == [("conv", True)]
    assert run(command) == 0
    assert "conv (logged before)" in capfd.readouterr().out
