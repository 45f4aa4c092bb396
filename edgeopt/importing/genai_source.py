"""Folders that the model builder of ONNX Runtime GenAI writes: a decoder with a cache as an ONNX model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.backends.base import Array, Backend
from edgeopt.bundle.cache import present_name
from edgeopt.errors import ModelError
from edgeopt.graph.import_proof import InputLimits, SizeLimits
from edgeopt.importing.decoding import STEPS, TextSession
from edgeopt.importing.huggingface import read_json

if TYPE_CHECKING:
    import onnx_ir as ir

CONFIG = "genai_config.json"
_AGAIN = "Write the folder again with the model builder of onnxruntime-genai."
SAMPLES = 4
_LENGTHS = (*[16] * SAMPLES, 1, 2, 7, 33, 2 * STEPS + 5, 130)
"""Tokens of each text: samples first, then other sizes. Grouped attention takes chunks of one text only."""
_SETTINGS = ("do_sample", "temperature", "top_k", "top_p")
_SEED = 7
Runs = list[dict[str, Array]]


def read_builder_config(folder: Path) -> Mapping[str, Any]:
    """Returns the configuration; raises ModelError if the folder does not hold one decoder with a cache."""
    config = read_json(folder / CONFIG)
    model = config.get("model")
    decoder = model.get("decoder") if isinstance(model, dict) else None
    if not isinstance(decoder, dict) or not isinstance(decoder.get("filename"), str):
        raise ModelError(f"{CONFIG} names no decoder.", _AGAIN)
    assert isinstance(model, dict)  # noqa: S101 - it has a decoder
    others = sorted({"encoder", "vision", "speech", "embedding"} & model.keys())
    if others or "pipeline" in decoder:
        what = f"also has {' and '.join(others)}" if others else "is split into several models"
        raise ModelError(f"The model of '{folder.name}' {what}.", "Only single decoders can be imported.")
    if not (folder / decoder["filename"]).is_file():
        raise ModelError(f"The folder has no {decoder['filename']}, which {CONFIG} names.", _AGAIN)
    return config


def builder_model(folder: Path) -> Path:
    """Returns the path of the decoder."""
    return folder / str(read_builder_config(folder)["model"]["decoder"]["filename"])


def fix_head_size(model: "ir.Model", folder: Path) -> None:
    """Sets the size of a head in the shapes of the cache, where the builder leaves it open."""
    import onnx_ir as ir

    size = read_builder_config(folder)["model"]["decoder"].get("head_size")
    pasts = [value.name or "" for value in model.graph.inputs]
    presents = {present_name(name) for name in pasts}
    for value in (*model.graph.inputs, *model.graph.outputs):
        is_state = present_name(value.name or "") or value.name in presents
        if is_state and value.shape is not None and isinstance(size, int) and not isinstance(value.shape[-1], int):
            value.shape = ir.Shape([*value.shape[:-1], size])


def builder_texts(folder: Path, path: Path, backend: Backend) -> tuple[Runs, Runs, tuple[dict[str, int], ...]]:
    """Returns random texts, the logits of the model, which runs each of them whole, and their sizes."""
    vocabulary = int(read_builder_config(folder)["model"].get("vocab_size") or 0)
    longest = read_builder_config(folder)["model"].get("context_length")
    lengths = [each for each in _LENGTHS if not isinstance(longest, int) or each <= longest]
    random = np.random.default_rng(_SEED)
    decoder = TextSession(backend.load(path, {}))
    texts, logits = [], []
    try:
        for length in lengths:
            ids = random.integers(0, max(vocabulary, 2), (1, length))
            text = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
            ((found, _),) = decoder.steps(text, (length,))
            texts.append(text)
            logits.append({"logits": found})
    finally:
        decoder.close()
    return texts, logits, tuple({"tokens": length} for length in lengths)


def builder_limits(folder: Path, names: Sequence[str]) -> InputLimits:
    """Returns the longest context as a limit of the token inputs."""
    longest = read_builder_config(folder)["model"].get("context_length")
    limit = {"1": SizeLimits(maximum=longest if isinstance(longest, int) else None)}
    return {name: limit for name in ("input_ids", "attention_mask") if name in names}


def builder_settings(folder: Path) -> dict[str, object]:
    """Returns the settings of a generation under the names of generation_config.json."""
    config = read_builder_config(folder)
    search = config.get("search")
    kept = {name: search[name] for name in _SETTINGS if isinstance(search, dict) and name in search}
    ids = {name: config["model"].get(name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    longest = {"max_position_embeddings": config["model"].get("context_length")}
    return kept | {name: value for name, value in (ids | longest).items() if value is not None}
