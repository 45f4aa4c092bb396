import numpy as np
import pytest

from edgeopt.errors import UsageError
from edgeopt.text.stream import TextStream
from edgeopt.text.tokenizer import Tokenizer
from tests.text.tiny import TEXT, write_tokenizer


@pytest.fixture(scope="module", params=[258, 320], ids=["bytes", "merged"])
def tokenizer(request, tmp_path_factory):
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("text"), vocabulary=request.param))


def pieces(stream, ids):
    found = []
    for token in ids:
        found.append(stream.push(token))
        if stream.stopped:
            return found
    return [*found, stream.finish()]


def test_pieces_are_whole_characters_and_add_up_to_the_text(tokenizer):
    found = pieces(TextStream(tokenizer.decode), tokenizer.encode(TEXT))
    assert "".join(found) == TEXT
    assert "\ufffd" not in "".join(found)
    assert sum(map(bool, found)) > 20
    assert "" in found  # a token that ends within a character


def test_random_tokens_give_the_text_of_all_of_them(tokenizer):
    random = np.random.default_rng(1)
    for _ in range(50):
        ids = random.integers(0, 258, 60).tolist()
        found = "".join(pieces(TextStream(tokenizer.decode, tokenizer.encode("Köln 日本")), ids))
        assert found == tokenizer.decode(ids).rstrip("\ufffd")  # bytes of half a character at the end are dropped


def test_half_a_character_at_the_end_is_dropped(tokenizer):
    ids = tokenizer.encode("Köln 日")
    assert "".join(pieces(TextStream(tokenizer.decode), ids[:-1])) == "Köln "


@pytest.mark.parametrize("prompt", [[], [0, 1], [200, 3]])
def test_special_tokens_give_no_text(tokenizer, prompt):
    stream = TextStream(tokenizer.decode, prompt)
    assert pieces(stream, [0, *tokenizer.encode("The"), 1])[0] == ""
    assert "".join(pieces(TextStream(tokenizer.decode, prompt), [0, *tokenizer.encode(" The"), 1])) == " The"


def test_the_space_before_the_first_word_stays_where_tokenizers_drop_it():
    words = {1: "The", 2: "▁cat", 3: "▁sat"}

    def decode(ids):  # as SentencePiece does: the first space is dropped
        return "".join(words[each] for each in ids).replace("▁", " ").removeprefix(" ")

    assert pieces(TextStream(decode, [1]), [2, 3]) == [" cat", " sat", ""]


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        (["cat"], "Grüße aus Köln! 👋🏽 The "),
        (["👩‍💻"], "Grüße aus Köln! 👋🏽 The cat sat on the mat. "),
        (["mat", "on the", "sat on"], "Grüße aus Köln! 👋🏽 The cat "),
        ([TEXT[3:]], "Grü"),
        (["\n\n"], "Grüße aus Köln! 👋🏽 The cat sat on the mat. 👩‍💻 codes, "),
    ],
)
def test_a_stop_text_ends_the_text_before_it(tokenizer, stop, text):
    stream = TextStream(tokenizer.decode, stop=stop)
    found = pieces(stream, tokenizer.encode(TEXT))
    assert "".join(found) == text
    assert stream.stopped


def test_what_could_begin_a_stop_text_is_held_back_until_it_does_not(tokenizer):
    stream = TextStream(tokenizer.decode, stop=["The cat ran", "mat. X", "C.!"])
    shown = ""
    for token in tokenizer.encode(TEXT):
        shown += stream.push(token)
        assert not shown.endswith(("The", "The cat", "mat", "mat. ", "C."))
    assert shown == TEXT.removesuffix("C.")
    assert (shown + stream.finish(), stream.stopped) == (TEXT, False)


def test_an_empty_stop_text_is_refused(tokenizer):
    with pytest.raises(UsageError, match="cannot be empty"):
        TextStream(tokenizer.decode, stop=[""])
