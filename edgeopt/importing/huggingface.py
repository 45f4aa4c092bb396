"""Checks of a Hugging Face folder before a framework opens it: configuration, code, complete weights."""

import json
from collections.abc import Mapping
from pathlib import Path

from edgeopt.errors import ModelError, UsageError

AGAIN = "Download the folder again, or write it with save_pretrained."
INDEX = "model.safetensors.index.json"
DECODERS = ("ForCausalLM", "LMHeadModel")
"""Ends of the names of architectures that generate with a decoder alone."""
GENERATION_TASK = "text-generation"
SPEECH_MODELS, SPEECH_TASK = ("WhisperForConditionalGeneration",), "automatic-speech-recognition"


def check_folder(folder: Path, trust: bool) -> None:
    config = read_json(folder / "config.json")
    if not config.get("model_type"):
        raise ModelError("config.json has no model_type, which names the architecture.", AGAIN)
    if "auto_map" in config and not trust:
        raise UsageError(
            f"'{folder.name}' needs its own Python code, which can do anything.",
            "Read its .py files, and add --trust if you trust their author.",
        )
    if (folder / INDEX).is_file():
        parts = read_json(folder / INDEX).get("weight_map")
        names = sorted(set(map(str, parts.values()))) if isinstance(parts, dict) else []
    else:
        names = ["model.safetensors"]
    for name in names:
        _check_weights(folder / name)


def generates(folder: Path, task: str) -> bool:
    """Whether the folder is imported as a language model with its cache."""
    return task in {"", GENERATION_TASK} and _architecture(folder).endswith(DECODERS)


def transcribes(folder: Path, task: str) -> bool:
    """Whether the folder is imported as a speech model: an encoder, and a decoder with its cache."""
    return task in {"", SPEECH_TASK} and _architecture(folder) in SPEECH_MODELS


def _architecture(folder: Path) -> str:
    names = read_json(folder / "config.json").get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def read_json(path: Path) -> Mapping[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path.name} cannot be read as JSON: {error}.", AGAIN) from error
    if not isinstance(found, dict):
        raise ModelError(f"{path.name} holds no object.", AGAIN)
    return found


def _check_weights(path: Path) -> None:
    """Raises ModelError if the weights are missing or not a complete safetensors file.

    Such a file has eight bytes with the length of the header, the header in JSON, then the tensors at its offsets.
    """
    if not path.is_file():
        raise ModelError(f"The folder has no weights: {path.name} is missing.", AGAIN)
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(length) if 8 + length <= size else b"")
            ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
            needed = 8 + length + max(ends, default=0)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            raise ModelError(f"{path.name} is not a complete safetensors file.", AGAIN) from None
    if needed != size:
        raise ModelError(f"{path.name} has {size:,} bytes instead of {needed:,}.", AGAIN)
