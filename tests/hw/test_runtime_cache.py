import pytest

from edgeopt.hw import runtime_cache

ANSWER = runtime_cache.Answer(("x", "y"), {"CPU": "Some CPU"}, {"CPU": ("FP32", "INT8")})


def test_what_is_stored_is_loaded(tmp_path):
    file = runtime_cache.path(tmp_path / "new", ["1.0"])
    assert runtime_cache.load(file) == {}
    assert runtime_cache.store(file, {"a": ANSWER}) is None
    assert runtime_cache.load(file) == {"a": ANSWER}
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == [file.name]


def test_other_circumstances_are_another_file(tmp_path):
    assert runtime_cache.path(tmp_path, ["1.0"]) != runtime_cache.path(tmp_path, ["1.1"])
    assert runtime_cache.path(tmp_path, ["1.0"]) == runtime_cache.path(tmp_path, ["1.0"])
    assert runtime_cache.path(None, ["1.0"]) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\x00", b"{", b"[]", b'{"a": 3}', b'{"a": [1]}', b'{"a": {"providers": [1]}}', b"[" * 9999],
)
def test_a_damaged_file_holds_nothing(tmp_path, content):
    file = tmp_path / "runtimes.json"
    file.write_bytes(content)
    assert runtime_cache.load(file) == {}


def test_a_folder_that_cannot_be_made_is_a_reason(tmp_path):
    (tmp_path / "file").write_text("")
    reason = runtime_cache.store(tmp_path / "file" / "runtimes.json", {})
    assert "cannot write to" in reason
