from pathlib import Path

import msgspec
import pytest

from edgeopt.errors import TrialError, UsageError
from edgeopt.measure.messages import Load
from edgeopt.measure.workloads.cold import drop, library_files, model_files, resident_bytes, run_cold
from edgeopt.measure.workloads.records import ColdRules

MIB = 2**20


@pytest.mark.timing
def test_the_time_to_the_first_answer_by_phase_and_who_is_first(bench):
    quick = bench.side("quick", latency_ms=1)
    slow = bench.side("slow", load_ms=150, latency_ms=40)
    found = run_cold(bench.host, [slow, quick], ColdRules(3), bench.emit)
    assert [side.name for side in found.sides] == ["slow", "quick"]
    for side in found.sides:
        assert len(side.starts) == 3
        for start in side.starts:
            parts = start.start_ms + start.import_ms + start.load_ms + start.first_run_ms
            assert start.total_ms == pytest.approx(parts)
        assert side.total_ms.low <= side.total_ms.median <= side.total_ms.high
        assert side.start_ms.median > 20  # Python and numpy take at least so long
    first, second = found.sides
    assert first.load_ms.median >= 150 > second.load_ms.median
    assert first.first_run_ms.median >= 40 > second.first_run_ms.median
    assert found.load_comparisons[0].speedup is None or found.load_comparisons[0].speedup.median < 0.5
    assert found.comparisons[0].first == "slow"
    assert found.comparisons[0].speedup is None or found.comparisons[0].speedup.median < 1
    assert found.comparisons[0].verdict == "too few rounds to tell"
    assert found.measured_while.startswith("Measured ")
    # Every start is a process of its own, and none is left.
    assert len({trial.pid for trial in bench.trials}) == 6
    assert not any(Path(f"/proc/{trial.pid}").exists() for trial in bench.trials)


def test_while_a_model_loads_its_memory_is_told_ten_times_a_second(bench):
    run_cold(bench.host, [bench.side("slow", load_ms=700)], ColdRules(1), bench.emit)
    assert len(bench.metrics("process_memory_bytes", "slow")) >= 7
    assert len(bench.metrics("load_percent", "slow")) >= 6


def test_a_side_that_cannot_start_is_told_and_the_other_goes_on(bench):
    sides = [bench.side("good"), bench.side("bad", crash="load")]
    found = run_cold(bench.host, sides, ColdRules(2), bench.emit)
    good, bad = found.sides
    assert len(good.starts) == 2
    assert not bad.starts
    assert "SIGSEGV" in bad.failure
    assert not found.comparisons


def test_when_nobody_can_start_it_is_an_error(bench):
    with pytest.raises(TrialError, match=r"'bad' failed: .*planted") as raised:
        run_cold(bench.host, [bench.side("bad", fail="load")], ColdRules(2), bench.emit)
    assert raised.value.hint
    with pytest.raises(UsageError):
        run_cold(bench.host, [bench.side("good")], ColdRules(0), bench.emit)


def test_a_file_is_taken_out_of_the_page_cache(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(bytes(range(256)) * 16384)
    file.read_bytes()
    assert resident_bytes(file) == 4 * MIB
    found = drop([file])
    if found.after_bytes == found.size_bytes:
        pytest.skip("this file system keeps all files in memory")
    assert (found.size_bytes, found.before_bytes) == (4 * MIB, 4 * MIB)
    assert found.after_bytes < MIB
    assert file.read_bytes()[:256] == bytes(range(256))
    empty = tmp_path / "empty"
    empty.touch()
    assert resident_bytes(empty) == 0


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no memory file system here")
def test_a_kernel_that_keeps_the_files_is_told(bench):
    side = bench.side("kept")
    place = Path("/dev/shm") / f"edgeopt-test-{side.load.model_path.replace('/', '_')}"
    place.write_bytes(Path(side.load.model_path).read_bytes())
    try:
        load = msgspec.structs.replace(side.load, model_path=str(place))
        found = run_cold(bench.host, [msgspec.structs.replace(side, load=load)], ColdRules(1), bench.emit)
    finally:
        place.unlink()
    assert found.sides[0].kept_percent == 100
    assert "stayed in memory although the kernel was asked" in found.cache


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (ColdRules(1, drop_files=False), "with a warm page cache"),
        (ColdRules(1), "Python and the runtime's libraries came from memory"),
    ],
)
def test_it_says_what_the_page_cache_held(bench, rules, said):
    assert said in run_cold(bench.host, [bench.side("a")], rules, bench.emit).cache


def test_the_files_of_a_model(tmp_path):
    names = ["m.onnx", "m.onnx.data", "m.bin", "other.onnx", "other.bin", "m.npz"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    bundle = tmp_path / "b.edgeopt"
    (bundle / "model").mkdir(parents=True)
    (bundle / "model" / "m.onnx").write_bytes(b"x")

    def files(path, backend="onnxruntime-cpu"):
        return [p.name for p in model_files(Load(backend, str(path), {}, ""))]

    assert files(tmp_path / "m.onnx") == ["m.onnx", "m.bin", "m.onnx.data"]
    assert files(bundle) == ["m.onnx"]
    assert files("python mine.py", "command") == []


def test_the_libraries_of_a_runtime():
    assert any("onnxruntime" in file.name for file in library_files("onnxruntime"))
    assert library_files(None) == library_files("no_such_package_anywhere") == ()
