from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from edgeopt.hw import probe_cache
from edgeopt.hw.device import ComputePeak, Peaks
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.hw.probe_cache import CachedFacts, age_s, load_peaks, peaks_path, store_peaks, with_peaks

MEASURED = CachedFacts(
    Peaks("2026-05-04T10:00:00+00:00", 8.5, (ComputePeak("onnxruntime", "fp32", 1, 1.2e11, "MatMul 384x384"),)),
    {"peaks.openvino": "the Python package 'openvino' is not installed"},
)


@pytest.fixture
def device(board):
    return probe(board("amd-zen4"))


def changed(device, section, **values):
    return msgspec.structs.replace(
        device, **{section: msgspec.structs.replace(getattr(device, section), **values)}
    )


def test_what_was_measured_is_found_again_by_the_same_device_alone(device, tmp_path):
    assert store_peaks(tmp_path / "cache", device, MEASURED) is None
    assert load_peaks(tmp_path / "cache", device) == MEASURED
    assert load_peaks(tmp_path / "cache", changed(device, "cpu", model="another")) is None
    assert load_peaks(tmp_path / "cache", changed(device, "limits", usable_cores=1)) is None
    newer = msgspec.structs.replace(device.runtimes[0], version="99")
    assert load_peaks(tmp_path / "cache", msgspec.structs.replace(device, runtimes=(newer,))) is None


def test_another_gpu_driver_does_not_matter(device, tmp_path):
    store_peaks(tmp_path, device, MEASURED)
    gpus = tuple(msgspec.structs.replace(each, driver="99") for each in device.accelerators)
    assert load_peaks(tmp_path, msgspec.structs.replace(device, accelerators=gpus)) == MEASURED


def test_probing_gives_them_back_with_their_source_and_reasons(board, device, tmp_path):
    store_peaks(tmp_path, device, MEASURED)
    found = probe(RecordedHost(board("amd-zen4").root, tmp_path))
    assert found.peaks == MEASURED.peaks
    assert "2026-05-04" in found.sources["peaks"]
    assert "not installed" in found.unavailable["peaks.openvino"]
    assert device.peaks is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda text: text[:-20],
        lambda text: b"\xff" + text,
        lambda text: text.replace(b"120000000000.0", b"-1"),
        lambda text: text.replace(b"2026-05-04T10", b"last Monday"),
        lambda _: b"[" * 100_000,
    ],
)
def test_a_damaged_file_holds_nothing_and_is_replaced(device, tmp_path, damage):
    store_peaks(tmp_path, device, MEASURED)
    file = peaks_path(tmp_path, device)
    damaged = damage(file.read_bytes())
    assert damaged != file.read_bytes()
    file.write_bytes(damaged)
    assert load_peaks(tmp_path, device) is None
    assert store_peaks(tmp_path, device, MEASURED) is None
    assert load_peaks(tmp_path, device) == MEASURED
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_no_folder_or_one_that_cannot_be_written_is_a_reason(device, tmp_path):
    assert load_peaks(None, device) is None
    assert store_peaks(None, device, MEASURED) == "there is no cache folder"
    (tmp_path / "file").touch()
    assert "cannot write" in store_peaks(tmp_path / "file", device, MEASURED)


def test_a_device_without_measured_peaks_is_as_it_was(device):
    assert with_peaks(device, None) is device


def test_their_age():
    begin = datetime.now(UTC) - timedelta(days=3)
    assert age_s(msgspec.structs.replace(MEASURED.peaks, measured_at=begin.isoformat())) == pytest.approx(
        3 * 86400, abs=5
    )


ANSWER = probe_cache.Answer(("x", "y"), {"CPU": "Some CPU"}, {"CPU": ("FP32", "INT8")})


def test_what_is_stored_is_loaded(tmp_path):
    file = probe_cache.answers_path(tmp_path / "new", ["1.0"])
    assert probe_cache.load_answers(file) == {}
    assert probe_cache.store_answers(file, {"a": ANSWER}) is None
    assert probe_cache.load_answers(file) == {"a": ANSWER}
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == [file.name]


def test_other_circumstances_are_another_file(tmp_path):
    assert probe_cache.answers_path(tmp_path, ["1.0"]) != probe_cache.answers_path(tmp_path, ["1.1"])
    assert probe_cache.answers_path(tmp_path, ["1.0"]) == probe_cache.answers_path(tmp_path, ["1.0"])
    assert probe_cache.answers_path(None, ["1.0"]) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\x00", b"{", b"[]", b'{"a": 3}', b'{"a": [1]}', b'{"a": {"providers": [1]}}', b"[" * 9999],
)
def test_a_damaged_file_holds_nothing(tmp_path, content):
    file = tmp_path / "runtimes.json"
    file.write_bytes(content)
    assert probe_cache.load_answers(file) == {}


def test_a_folder_that_cannot_be_made_is_a_reason(tmp_path):
    (tmp_path / "file").write_text("")
    reason = probe_cache.store_answers(tmp_path / "file" / "runtimes.json", {})
    assert "cannot write to" in reason
