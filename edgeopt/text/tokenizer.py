"""The tokenizer of a language model and its settings for generating, in the files that Hugging Face writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import DataError, MissingExtraError, ModelError, UsageError, error_text
from edgeopt.text.chat import render

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Encoder

FOLDER = "text"
"""Folder of a bundle with the files of the tokenizer."""
Messages = Sequence[Mapping[str, str]]
"""A conversation: each message has a `role` and a `content`."""
_HINT = "Save the tokenizer again with save_pretrained of transformers."
_MODEL, _CONFIG, _TEMPLATE, SETTINGS = (
    *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"),
)
_Read = TypeVar("_Read")


class GenerationSettings(msgspec.Struct, frozen=True):
    """Settings in `generation_config.json`; None where the file does not have them."""

    eos_token_id: int | tuple[int, ...] | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None

    def sampling(
        self, temperature: float | None = None, top_k: int | None = None, top_p: float | None = None
    ) -> tuple[float, int, float]:
        """Returns temperature, top-k and top-p: the given ones, or those of the file."""
        if temperature is None:
            temperature = (1.0 if self.temperature is None else self.temperature) if self.do_sample else 0.0
        if top_k is None:
            top_k = self.top_k or 0
        if top_p is None:
            top_p = 1.0 if self.top_p is None else self.top_p
        return temperature, top_k, top_p


def text_folder(model: Path) -> Path:
    """Returns the folder beside a model file that holds its tokenizer: `MODEL.text`."""
    return model.with_suffix(f".{FOLDER}")


def load_tokenizer(folder: Path) -> "Tokenizer":
    """Reads the tokenizer in a folder; raises UsageError if there is none."""
    if not (folder / _MODEL).is_file():
        place = "the bundle" if folder.name == FOLDER else f"the folder '{folder.name}' beside the model"
        raise UsageError(
            f"There is no tokenizer in {place}, so prompts are token ids.",
            "Put tokenizer.json, tokenizer_config.json and generation_config.json into a folder MODEL.text beside "
            "the source model MODEL.onnx; bundles made from then on have them.",
        )
    return Tokenizer(folder)


class Tokenizer:
    """The tokenizer of a model, its chat template and its settings for generating."""

    def __init__(self, folder: Path) -> None:
        """Reads the files; raises MissingExtraError without the library, ModelError for a damaged file."""
        self._encoder = _encoder(folder / _MODEL)
        self._config: dict[str, Any] = read_json(folder / _CONFIG, dict) or {}
        self._template = _template(folder, self._config)
        self.settings = read_json(folder / SETTINGS, GenerationSettings) or GenerationSettings()
        self.stop_ids = self._stop_ids()
        """Tokens that end an answer."""

    @property
    def takes_messages(self) -> bool:
        """Whether the model has a chat template, so that a prompt may be a conversation."""
        return self._template is not None

    def encode(self, prompt: "str | Messages") -> list[int]:
        """Returns the ids of a text, or of a conversation up to the beginning of the next answer."""
        # A chat template writes the special tokens itself.
        is_plain = isinstance(prompt, str)
        text = prompt if isinstance(prompt, str) else self.chat_text(prompt)
        ids: list[int] = self._encoder.encode(text, add_special_tokens=is_plain).ids
        if not ids:
            raise DataError("The prompt has no tokens.", "Give a text that is not empty.")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of tokens, without special tokens."""
        return self._encoder.decode(ids, skip_special_tokens=True)

    def token_id(self, text: str) -> int | None:
        """Returns the id of the token with exactly this text; None if there is none."""
        found: int | None = self._encoder.token_to_id(text)
        return found

    def chat_text(self, messages: Messages) -> str:
        """Returns a conversation as the text that the model was trained on."""
        if self._template is None:
            raise ModelError(
                "The tokenizer has no chat template, so it does not take messages.", "Give the prompt as text."
            )
        return render(self._template, messages, _special_tokens(self._config))

    def _stop_ids(self) -> tuple[int, ...]:
        found = self.settings.eos_token_id
        if found is None:
            found = self._encoder.token_to_id(_special_tokens(self._config).get("eos_token", ""))
        return () if found is None else (found,) if isinstance(found, int) else found


def _encoder(path: Path) -> "Encoder":
    try:
        from tokenizers import Tokenizer as Encoder
    except ImportError:
        raise MissingExtraError("text", "Generating text") from None
    try:
        found = Encoder.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises nothing more specific
        raise ModelError(f"The tokenizer '{path}' cannot be read: {error_text(error)}.", _HINT) from None
    # Those of a file are for training.
    found.no_truncation()
    found.no_padding()
    return found


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    file = folder / _TEMPLATE
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = config.get("chat_template")
    if isinstance(found, list):
        found = next((each.get("template") for each in found if each.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Returns the special tokens by their names, such as `bos_token`, as chat templates use them."""
    named = {name: value for name, value in config.items() if name.endswith("_token")}
    found = {name: each.get("content") if isinstance(each, dict) else each for name, each in named.items()}
    return {name: text for name, text in found.items() if isinstance(text, str)}


def read_json(path: Path, kind: type[_Read]) -> _Read | None:
    """Returns the content of a file of a model, or None if there is none; raises ModelError for a damaged one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=thread_safe(kind))
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"'{path}' cannot be read: {error_text(error)}.", _HINT) from None
