import msgspec

from edgeopt.commands.ops import cache
from edgeopt.commands.ops.result import Measured
from edgeopt.hw.probe import probe


def test_what_was_stored_is_found_again(tmp_path):
    file = tmp_path / "new" / "ops.json"
    kept = {"a": Measured("conforms", 1, 2, time_us=3.5), "b": Measured("failed", 1, 2, "It crashed.")}
    assert cache.store(file, kept) is None
    assert cache.load(file) == kept
    assert [path.name for path in file.parent.iterdir()] == ["ops.json"]


def test_a_missing_or_damaged_file_holds_nothing(tmp_path):
    file = tmp_path / "ops.json"
    assert cache.load(None) == cache.load(file) == {}
    for content in (b"", b"{}}", b"\xff\xfe", b'{"a": {"status": "fine"}}', b"[" * 100_000):
        file.write_bytes(content)
        assert cache.load(file) == {}


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write to" in cache.store(tmp_path / "file" / "ops.json", {})


def test_another_runtime_or_device_has_another_file(tmp_path):
    device = probe()
    fewer = msgspec.structs.replace(device, limits=msgspec.structs.replace(device.limits, usable_cores=99))
    paths = [
        cache.path(tmp_path, device, "onnxruntime-cpu", "1.0"),
        cache.path(tmp_path, device, "onnxruntime-cpu", "1.1"),
        cache.path(tmp_path, device, "openvino-cpu", "1.0"),
        cache.path(tmp_path, fewer, "onnxruntime-cpu", "1.0"),
    ]
    assert len(set(paths)) == len(paths)
    assert cache.path(tmp_path, probe(), "onnxruntime-cpu", "1.0") == paths[0]
