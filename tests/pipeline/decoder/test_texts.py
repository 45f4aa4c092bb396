import re

import numpy as np
import pytest

from edgeopt.errors import DataError, UsageError
from edgeopt.pipeline.decoder.texts import read_texts
from tests.text.tiny import SIZE, TEXT, write_tokenizer

LENGTH = 12


@pytest.fixture
def tokenizer(tmp_path):
    write_tokenizer(tmp_path / "model.text")
    return tmp_path / "model.text"


def test_a_text_file_becomes_texts_of_equal_length_that_do_not_overlap(tokenizer, tmp_path):
    (tmp_path / "own.txt").write_text(TEXT * 8, encoding="utf-8")
    found = read_texts(tokenizer, tmp_path / "own.txt", "input_ids", LENGTH, SIZE)
    assert {len(row) for row in found.rows} == {LENGTH}
    assert not found.warning
    from edgeopt.text.tokenizer import load_tokenizer

    ids = load_tokenizer(tmp_path / "model.text").encode(TEXT * 8)
    assert [each for row in found.rows for each in row] == ids[: len(found.rows) * LENGTH]


def test_too_short_a_text_is_refused(tokenizer, tmp_path):
    (tmp_path / "own.txt").write_text("The cat.", encoding="utf-8")
    with pytest.raises(DataError, match="at least 4 are needed"):
        read_texts(tokenizer, tmp_path / "own.txt", "input_ids", LENGTH, SIZE)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "own.txt' is empty"),
        (b"\n \n", "own.txt' is empty"),
        (b"\x7fELF\xd0\x00", "own.txt' is not UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_refused_with_its_name(tokenizer, tmp_path, content, says):
    if content is not None:
        (tmp_path / "own.txt").write_bytes(content)
    with pytest.raises(DataError, match=says) as caught:
        read_texts(tokenizer, tmp_path / "own.txt", "input_ids", LENGTH, SIZE)
    assert "codec" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", ["ids", "input_ids"])
def test_ids_of_an_archive_are_taken(tokenizer, tmp_path, name):
    ids = np.arange(5 * 20).reshape(5, 20)
    np.savez(tmp_path / "own.npz", **{name: ids})
    found = read_texts(tokenizer, tmp_path / "own.npz", "input_ids", LENGTH, SIZE)
    assert found.rows == tuple(map(tuple, ids[:, :LENGTH].tolist()))


def test_ids_outside_of_the_vocabulary_are_refused(tokenizer, tmp_path):
    np.savez(tmp_path / "own.npz", ids=np.full((5, 20), SIZE))
    with pytest.raises(DataError, match=f"no token {SIZE}"):
        read_texts(tokenizer, tmp_path / "own.npz", "input_ids", LENGTH, SIZE)


def test_equal_texts_do_not_count_as_several(tokenizer, tmp_path):
    np.savez(tmp_path / "own.npz", ids=np.repeat(np.arange(20)[None], 8, axis=0))
    with pytest.raises(DataError, match="has 1 different text of 12 tokens"):
        read_texts(tokenizer, tmp_path / "own.npz", "input_ids", LENGTH, SIZE)


def test_rows_that_are_joined_are_named(tokenizer, tmp_path):
    np.savez(tmp_path / "own.npz", ids=np.arange(60).reshape(12, 5))
    found = read_texts(tokenizer, tmp_path / "own.npz", "input_ids", LENGTH, SIZE)
    assert len(found.rows) == 5
    assert "have 5 tokens, fewer than 12: texts are joined" in found.warning


def test_an_archive_without_ids_is_refused(tokenizer, tmp_path):
    np.savez(tmp_path / "own.npz", x=np.zeros((5, 20)))
    with pytest.raises(UsageError, match="no array 'input_ids' or 'ids'"):
        read_texts(tokenizer, tmp_path / "own.npz", "input_ids", LENGTH, SIZE)


def test_without_data_the_text_of_edgeopt_is_taken_and_named(tokenizer):
    found = read_texts(tokenizer, None, "input_ids", LENGTH, SIZE)
    assert len(found.rows) > 100
    assert re.search("small text of edgeopt, not on yours.* --data", found.warning)


def test_without_tokenizer_the_tokens_are_random_and_said_to_be(tmp_path):
    found = read_texts(tmp_path / "model.text", None, "input_ids", LENGTH, SIZE)
    assert len(set(found.rows)) == len(found.rows)
    assert "random tokens" in found.warning


def test_steps_of_an_import_are_not_taken_for_texts(tokenizer, tmp_path):
    steps = {"input_ids": np.ones((32, 1, LENGTH), np.int64), "past.0.key": np.zeros((32, 1, 1, 4, 2), np.float32)}
    np.savez(tmp_path / "model.npz", **steps)
    found = read_texts(
        tokenizer, tmp_path / "model.npz", "input_ids", LENGTH, SIZE, {"past.0.key": "present.0.key"}
    )
    assert found.rows == read_texts(tokenizer, None, "input_ids", LENGTH, SIZE).rows
    assert found.warning.startswith(
        "'model.npz' has steps of the cache, not texts: measured and judged on a small"
    )
