import sys

import pytest

from edgeopt.errors import DataError, MissingExtraError, ModelError, UsageError
from edgeopt.text.tokenizer import GenerationSettings, Tokenizer, load_tokenizer
from tests.text.tiny import BEGIN, END, TEXT, write_tokenizer


def test_text_comes_back_from_its_tokens(tmp_path):
    tokenizer = Tokenizer(write_tokenizer(tmp_path / "m.text"))
    ids = tokenizer.encode(TEXT)
    assert len(ids) > 8
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.decode([0, *ids, 1]) == TEXT


def test_special_tokens_in_a_chat_are_single_tokens(tmp_path):
    tokenizer = Tokenizer(write_tokenizer(tmp_path / "m.text"))
    ids = tokenizer.encode([{"role": "user", "content": "The cat"}])
    assert (ids[0], ids.count(0), ids.count(1)) == (0, 2, 1)


@pytest.mark.parametrize(
    ("settings", "config", "expected"),
    [
        ({"eos_token_id": 5}, {}, (5,)),
        ({"eos_token_id": [5, 1]}, {}, (5, 1)),
        ({"eos_token_id": None}, {}, (1,)),
        (None, {}, (1,)),
        (None, {"eos_token": None}, ()),
        (None, {"eos_token": "<none>"}, ()),
    ],
)
def test_end_tokens_come_from_the_settings_or_the_tokenizer(tmp_path, settings, config, expected):
    folder = write_tokenizer(tmp_path / "m.text", settings=settings, config=config)
    assert Tokenizer(folder).stop_ids == expected


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        ({}, {}, (0.0, 0, 1.0)),
        ({"temperature": 0.6, "top_k": 20, "top_p": 0.9}, {}, (0.0, 20, 0.9)),
        ({"temperature": 0.6, "top_k": 20, "top_p": 0.9, "do_sample": True}, {}, (0.6, 20, 0.9)),
        ({"do_sample": True}, {}, (1.0, 0, 1.0)),
        ({"temperature": 0.6, "do_sample": True}, {"temperature": 0.0}, (0.0, 0, 1.0)),
        ({"top_k": 20}, {"temperature": 0.5, "top_k": 0, "top_p": 0.8}, (0.5, 0, 0.8)),
    ],
)
def test_sampling_is_the_given_one_or_that_of_the_model(settings, given, expected):
    assert GenerationSettings(**settings).sampling(**given) == expected


def test_a_missing_library_names_the_extra(tmp_path, monkeypatch):
    folder = write_tokenizer(tmp_path / "m.text")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match="Generating text needs the 'text' extra") as caught:
        Tokenizer(folder)
    assert caught.value.hint == "Install it with: pip install tokenizers jinja2"


def test_a_missing_tokenizer_says_where_it_belongs(tmp_path):
    with pytest.raises(UsageError, match=r"no tokenizer in the folder 'm\.text' beside the model") as caught:
        load_tokenizer(tmp_path / "m.text")
    assert "MODEL.text" in caught.value.hint
    with pytest.raises(UsageError, match="no tokenizer in the bundle"):
        load_tokenizer(tmp_path / "text")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("content", ["{", '{"eos_token_id": "two", "version": 1}', "[]"])
def test_a_damaged_file_is_named(tmp_path, name, content):
    folder = write_tokenizer(tmp_path / "m.text")
    (folder / name).write_text(content)
    if name == "tokenizer_config.json" and content.startswith('{"'):
        assert Tokenizer(folder).stop_ids == ()
        return
    with pytest.raises(ModelError, match=name):
        Tokenizer(folder)


def test_a_prompt_without_tokens_is_refused(tmp_path):
    with pytest.raises(DataError, match="prompt has no tokens"):
        Tokenizer(write_tokenizer(tmp_path / "m.text")).encode("")


@pytest.mark.parametrize(
    "config",
    [
        {"chat_template": "{{ messages[0].content }}!"},
        {
            "chat_template": [
                {"name": "tools", "template": "no"},
                {"name": "default", "template": "{{ messages[0].content }}!"},
            ]
        },
    ],
)
def test_older_tokenizers_have_their_template_in_the_configuration(tmp_path, config):
    tokenizer = Tokenizer(write_tokenizer(tmp_path / "m.text", template=None, config=config))
    assert tokenizer.chat_text([{"role": "user", "content": "Hi"}]) == "Hi!"


def test_messages_without_a_template_are_refused(tmp_path):
    tokenizer = Tokenizer(write_tokenizer(tmp_path / "m.text", template=None))
    with pytest.raises(ModelError, match="no chat template"):
        tokenizer.encode([{"role": "user", "content": "Hi"}])


def test_the_chat_template_gets_special_tokens(tmp_path):
    tokenizer = Tokenizer(write_tokenizer(tmp_path / "m.text"))
    messages = [{"role": "system", "content": "Be <brief>."}, {"role": "user", "content": "Grüße"}]
    assert tokenizer.chat_text(messages) == (
        f"{BEGIN}system\nBe <brief>.{END}\n{BEGIN}user\nGrüße{END}\n{BEGIN}assistant\n"
    )
