import pytest

from edgeopt.hw import probe_cache

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
