"""Command lines of both kinds of shells."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.platform.command_line import join_words, quote_word, split_words

PATH = r"C:\Users\Ada Lovelace\model.onnx"
WORDS = st.lists(st.text(st.sampled_from("ab\\\" '&é→"), max_size=6), max_size=4)


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.setattr(os, "name", "nt")


def on(name, function, *arguments):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "name", name)
        return function(*arguments)


@pytest.mark.parametrize("name", ["nt", "posix"])
@given(words=WORDS)
def test_a_joined_line_splits_into_its_words(name, words):
    line = on(name, join_words, words)
    assert on(name, split_words, line) == words


@given(words=WORDS)
def test_windows_reads_what_python_writes_for_it(words):
    assert on("nt", split_words, subprocess.list2cmdline(words)) == words


def test_backslashes_on_windows_are_part_of_paths(windows):
    """`ssh -i C:\\keys\\id` lost its backslashes."""
    assert split_words(r"ssh -i C:\keys\id -p 22") == ["ssh", "-i", r"C:\keys\id", "-p", "22"]
    assert split_words(f'python "{PATH}"') == ["python", PATH]


def test_windows_gets_the_quotes_that_its_shell_knows(windows):
    """Paths were printed in single quotes, which are part of a word there."""
    assert quote_word(r"C:\models\m.onnx") == r"C:\models\m.onnx"
    assert quote_word(PATH) == f'"{PATH}"'
    assert quote_word("a&b") == '"a&b"'


@pytest.mark.parametrize("name", ["nt", "posix"])
def test_an_open_quote_is_an_error(name):
    with pytest.raises(ValueError, match="No closing quotation"):
        on(name, split_words, 'python "mine.py')
