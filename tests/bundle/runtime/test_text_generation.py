"""Text in, text out: prompts and messages as text, pieces of text, stop texts, the model's own settings."""

import shutil

import numpy as np
import pytest

import edgeopt
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.write import put_text
from edgeopt.errors import BundleError, DataError, UsageError
from tests.bundle.runtime.scripted import ANSWER, CHAT, END_ID, PROMPT, write_scripted
from tests.bundle.runtime.test_generation import bundle_of

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_scripted(tmp_path_factory.mktemp("scripted") / "m.onnx")


@pytest.fixture
def session(model):
    with edgeopt.load(model, "onnxruntime-cpu") as loaded:
        yield loaded


@pytest.mark.parametrize("prompt", [PROMPT, CHAT, [{"role": "system", "content": "Be brief."}, *CHAT]])
def test_text_continues_a_prompt_until_the_end_token(session, prompt):
    generation = session.generate(prompt)
    found = list(generation)
    assert "".join(found) == generation.text == ANSWER
    assert len(found) > 5
    assert generation.ending == "stop"
    assert generation.prompt_tokens == session.tokenizer.encode(prompt)
    assert session.tokenizer.decode(generation.tokens) == ANSWER
    assert END_ID not in generation.tokens
    assert generation.first_token_s > 0
    assert list(generation) == []


def test_parts_of_a_prompt_give_no_text_and_count_as_time_to_the_first_token(session):
    generation = session.generate(CHAT, max_step_tokens=1)
    for _ in generation.prompt_tokens[1:]:
        assert (generation.step(), generation.tokens, generation.first_token_s) == ("", [], None)
    begun_s = generation._generation._prompt_s
    generation.step()
    assert generation.first_token_s > begun_s > 0
    assert generation.text + "".join(generation) == ANSWER


def test_ids_continue_ids_without_a_tokenizer_and_its_end_token(session):
    ids = session.tokenizer.encode(PROMPT)
    generation = session.generate(ids, max_tokens=12)
    found = list(generation)
    assert END_ID in found
    assert (generation.tokens, generation.prompt_tokens, generation.ending) == (found, ids, "max_tokens")
    assert list(session.generate(np.array(ids), stop=END_ID)) == found[: found.index(END_ID)]
    with pytest.raises(UsageError, match="cannot stop at a text"):
        session.generate(ids, stop="\n")


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ("Grüße", " cat: "),
        (["nothing", "👋🏽"], " cat: Grüße "),
        ([":"], " cat"),
        (["本語"], " cat: Grüße 👋🏽日"),
    ],
)
def test_a_stop_text_ends_the_text_and_is_left_out(session, stop, text):
    generation = session.generate(PROMPT, stop=stop)
    assert "".join(generation) == generation.text == text
    assert generation.ending == "stop"
    assert next(generation, None) is None


def test_stop_ids_end_text_too_beside_the_end_token(session):
    (colon,) = session.tokenizer.encode(":")
    assert "".join(session.generate(PROMPT, stop=[colon, "nothing"])) == " cat"


def test_a_limit_inside_a_character_drops_its_first_bytes(session):
    count = 6  # the sixth token ends within the last letter
    generation = session.generate(PROMPT, max_tokens=count)
    assert "".join(generation) == " cat: Grüße 👋🏽日本"
    assert (generation.ending, len(generation.tokens)) == ("max_tokens", count)
    assert session.tokenizer.decode(generation.tokens).endswith("日本\ufffd")


def test_closing_ends_the_text(session):
    generation = session.generate(PROMPT)
    first = next(generation)
    generation.close()
    assert (list(generation), generation.text, generation.ending) == ([], first, "closed")


def test_settings_of_the_model_are_the_defaults(tmp_path):
    colon = 27
    settings = {"eos_token_id": [END_ID, colon], "do_sample": True, "temperature": 50.0, "top_k": 200}
    model = write_scripted(tmp_path / "m.onnx", settings=settings)
    with edgeopt.load(model, "onnxruntime-cpu") as session:
        assert session.tokenizer.encode(":") == [colon]
        assert "".join(session.generate(PROMPT, temperature=0)) == " cat"
        drawn = ["".join(session.generate(PROMPT, seed=seed, max_tokens=8)) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]
        assert "".join(session.generate(PROMPT, top_k=1)) == " cat"


def test_a_worker_process_generates_the_same_text(model):
    with edgeopt.load(model, "onnxruntime-cpu", isolate=True) as session:
        assert "".join(session.generate(PROMPT)) == ANSWER


@pytest.mark.parametrize(
    ("prompt", "keywords", "error", "says"),
    [
        ("", {}, DataError, "prompt has no tokens"),
        ([], {}, DataError, "at least one"),
        ([{"role": "user"}], {}, DataError, "'role' and a 'content'"),
        ([{"role": "tool", "content": "1"}], {}, DataError, "Unknown role tool"),
        (PROMPT, {"stop": ""}, UsageError, "cannot be empty"),
        (PROMPT, {"stop": [None]}, UsageError, "texts and token ids only"),
        (PROMPT, {"top_p": 0}, UsageError, "'top_p' cannot be 0"),
    ],
)
def test_wrong_prompts_and_settings_are_refused_before_the_first_step(session, prompt, keywords, error, says):
    with pytest.raises(error, match=says):
        session.generate(prompt, **keywords)


def test_a_model_without_a_tokenizer_says_where_it_belongs(decoder):
    with edgeopt.load(decoder) as session, pytest.raises(UsageError, match=r"the folder 'm\.text' beside the"):
        session.generate(PROMPT)


def text_bundle(model, out):
    """Writes a bundle of the model with its tokenizer."""
    folder = bundle_of(model, out)
    put_text(folder, model)
    write_manifest(folder)
    return folder


def test_a_bundle_has_the_tokenizer_of_its_model(model, tmp_path):
    bundle = text_bundle(model, tmp_path / "m.edgeopt")
    moved = tmp_path / "elsewhere" / "n.edgeopt"
    moved.parent.mkdir()
    shutil.move(bundle, moved)
    with edgeopt.load(moved) as session:
        assert "".join(session.generate(PROMPT)) == ANSWER
    (moved / "text" / "generation_config.json").write_text("{}")
    with pytest.raises(BundleError, match=r"text/generation_config\.json, which its manifest does not list"):
        edgeopt.load(moved)


def test_a_bundle_without_a_tokenizer_loads_and_says_so(model, tmp_path):
    bundle = bundle_of(model, tmp_path / "m.edgeopt")
    with edgeopt.load(bundle) as session:
        assert len(list(session.generate([3, 2], max_tokens=4))) == 4
        with pytest.raises(UsageError, match="no tokenizer in the bundle"):
            session.generate(PROMPT)


def test_a_rebuilt_bundle_has_the_tokenizer_of_the_first(model, tmp_path):
    first = read_bundle(text_bundle(model, tmp_path / "m.edgeopt"))
    for place, source in (("a", tmp_path / "no-tokenizer-beside.onnx"), ("b", model)):
        (tmp_path / place).mkdir()
        put_text(tmp_path / place, source, first if place == "a" else None)
        assert (tmp_path / place / "text" / "tokenizer.json").is_file()
