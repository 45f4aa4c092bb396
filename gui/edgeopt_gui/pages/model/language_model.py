"""Whether the model is a language model, and the command that generates text with it."""

from pathlib import Path

from edgeopt.graph.analysis import Analysis
from edgeopt_gui.jobs.command import Command

_PAST = "past_key_values."
_TOKENIZER = "tokenizer.json"
_PROMPT = "Once upon a time"


def is_language_model(analysis: Analysis) -> bool:
    """Whether the model is a decoder with a cache that takes nothing but tokens."""
    if not any(tensor.name.startswith(_PAST) for tensor in analysis.inputs):
        return False
    # Most models are none, so the first window need not wait for these modules.
    from edgeopt.backends.base import TensorInfo
    from edgeopt.bundle.cache import found_cache, is_cross_attention
    from edgeopt.errors import EdgeoptError

    inputs, outputs = (
        [TensorInfo(each.name, each.dtype or "", each.shape or ()) for each in tensors]
        for tensors in (analysis.inputs, analysis.outputs)
    )
    try:
        return not any(map(is_cross_attention, found_cache(inputs, outputs).pairs))
    except EdgeoptError:
        return False


def language_text(analysis: Analysis) -> str:
    """Returns what a language model generates; "" for any other model."""
    if not is_language_model(analysis):
        return ""
    if _has_tokenizer(analysis):
        return "generates text"
    return f"generates tokens; for text, put its {_TOKENIZER} into the folder {_folder(analysis).name} beside it"


def text_command(analysis: Analysis) -> Command | None:
    """Returns the command that continues a prompt; None if the model does not generate text."""
    if not is_language_model(analysis) or not _has_tokenizer(analysis):
        return None
    arguments = ("run", analysis.path, "--prompt", _PROMPT, "--max-tokens", "64")
    return Command(f"Generating text with {analysis.name}", arguments)


def _folder(analysis: Analysis) -> Path:
    from edgeopt.text.tokenizer import FOLDER, text_folder

    path = Path(analysis.path)
    return path / FOLDER if path.is_dir() else text_folder(path)


def _has_tokenizer(analysis: Analysis) -> bool:
    # A bundle in one file is not unpacked to find out.
    is_packed = analysis.kind == "bundle" and Path(analysis.path).is_file()
    return is_packed or (_folder(analysis) / _TOKENIZER).is_file()
