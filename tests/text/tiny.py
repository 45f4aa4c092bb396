"""A tiny byte-level tokenizer in the files of Hugging Face, made with the library that reads it."""

import json

import pytest

TEXT = "Grüße aus Köln! 👋🏽 The cat sat on the mat. 👩‍💻 codes, \n\n日本語 too. It's 3 °C."
SIZE = 320
BEGIN, END = "<|im_start|>", "<|im_end|>"
CHAT = (
    "{% for message in messages %}\n"
    "  {% if message['role'] not in ['system', 'user', 'assistant'] %}\n"
    "{{ raise_exception('Unknown role ' + message['role']) }}\n"
    "  {% endif %}\n"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}{% generation %}{{ message['content'] }}{% endgeneration %}"
    "{{ eos_token + '\\n' }}"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def write_tokenizer(folder, *, config=None, settings=None, template=CHAT, vocabulary=SIZE):
    """Writes a folder such as MODEL.text, and returns it."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.train_from_iterator(
        [TEXT],
        tokenizers.trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[BEGIN, END],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    # As training leaves it; prompts are not to be cut or filled up by it.
    made.enable_truncation(4)
    made.enable_padding(length=8)
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    described = {"eos_token": {"content": END}, "bos_token": BEGIN, "pad_token": None, **(config or {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    if settings is not None:
        (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder
