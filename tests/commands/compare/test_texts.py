"""Language models, compared by their tokens on texts."""

import numpy as np
import pytest

from edgeopt.cli.compare import sections, verdict
from edgeopt.commands.compare.compare import compare
from edgeopt.commands.compare.request import ModelCompareRequest
from edgeopt.errors import DataError
from edgeopt.views.blocks import WordsBlock
from tests.bundle.runtime.decoder import HEADS, PAIRS, WIDTH, scripted_weights, write_decoder
from tests.pipeline.decoder.conftest import drown_head
from tests.text.tiny import SIZE, TEXT, write_tokenizer


@pytest.fixture
def source(tmp_path):
    return write_decoder(tmp_path / "source.onnx")


@pytest.fixture
def noisy(tmp_path):
    """Makes the same decoder with noise in its logits."""

    def make(strength):
        return drown_head(write_decoder(tmp_path / "noisy.onnx"), strength)

    return make


def compared(first, second, **more):
    return compare(ModelCompareRequest(first, second, **more))


def test_tokens_decide_for_language_models(source, noisy):
    found = compared(source, noisy(0.002))
    assert found.snr_db < 80
    assert found.within
    assert 0 < found.tokens.kl < 0.02
    assert found.tokens.top1 > 0.93
    assert (found.samples, found.data) == (8, "texts of 64 tokens from random tokens")
    assert verdict(found).startswith("Equal within the floor: KL ")
    assert verdict(found).endswith("the floor is KL 0.02 and top-1 93 %.")


def test_tokens_that_differ_are_below_the_floor(source, noisy):
    found = compared(source, noisy(0.5))
    assert not found.within
    assert found.tokens.kl > 0.02
    assert found.layers.first is None or found.layers.first.value
    assert verdict(found).startswith("Different: KL ")


def test_floor_in_decibels_decides_where_it_is_given(source, noisy):
    found = compared(source, noisy(0.002), floor_db=80)
    assert not found.within
    assert "the floor is 80 dB" in verdict(found)
    said = [block.text for part in sections(found) for block in part.blocks if isinstance(block, WordsBlock)]
    assert any(text.startswith("Tokens with 95 % intervals on other texts: KL ") for text in said)


def test_texts_are_those_of_the_data(tmp_path):
    source = write_decoder(tmp_path / "source.onnx", held=scripted_weights({}, SIZE))
    write_tokenizer(tmp_path / "source.text")
    (tmp_path / "own.txt").write_text(TEXT * 20, encoding="utf-8")
    found = compared(source, source, data=tmp_path / "own.txt")
    assert found.data == "texts of 64 tokens from own.txt"
    assert found.tokens.kl == 0
    (tmp_path / "own.txt").write_text("The cat.", encoding="utf-8")
    with pytest.raises(DataError, match="at least 4 are needed"):
        compared(source, source, data=tmp_path / "own.txt")


def test_samples_of_single_runs_are_compared_in_decibels(source, noisy, tmp_path):
    cache = dict.fromkeys(PAIRS, np.zeros((4, HEADS, 3, WIDTH), np.float32))
    ids = np.full((4, 1), 5)
    np.savez(tmp_path / "steps.npz", input_ids=ids, position_ids=ids, attention_mask=np.ones((4, 4), int), **cache)
    found = compared(source, noisy(0.002), data=tmp_path / "steps.npz")
    assert found.tokens is None
    assert not found.within


def test_other_models_have_no_tokens(conv_model):
    assert compared(conv_model, conv_model).tokens is None
