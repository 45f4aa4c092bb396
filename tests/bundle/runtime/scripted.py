"""A decoder with a tokenizer that gives one answer to a prompt as text, and to a conversation."""

import itertools

import numpy as np

from edgeopt.text.tokenizer import Tokenizer
from tests.bundle.runtime.decoder import scripted_weights, write_decoder
from tests.text.tiny import SIZE, write_tokenizer

PROMPT, ANSWER = "The", " cat: Grüße 👋🏽日本語!"
CHAT = [{"role": "user", "content": "Hi"}]
END_ID = 1


def write_scripted(path, answer=ANSWER, *, endless=False, **files):
    """Writes the model and the folder of its tokenizer, and returns the path of the model.

    With `endless`, the answer begins again at its end, up to tens of thousands of tokens.
    """
    tokenizer = Tokenizer(write_tokenizer(path.with_suffix(".text"), **files))
    (last,), (last_of_chat, *_) = map(tokenizer.encode, (PROMPT, "\n"))
    first, *rest = tokenizer.encode(answer)
    script = [last, first, *rest, first if endless else END_ID]
    following = dict(itertools.pairwise(script))
    assert len(following) == len(script) - 1, "a token comes twice"
    held = scripted_weights({last_of_chat: first, **following}, SIZE)
    if endless:
        held["places"] = np.zeros((50_000, held["tokens"].shape[1]), np.float32)
    return write_decoder(path, held=held)
