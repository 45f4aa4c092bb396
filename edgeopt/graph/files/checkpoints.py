"""The content of PyTorch checkpoints, read from the names in them: none of their code runs."""

import pickletools
import zipfile
from pathlib import Path

from edgeopt.errors import ModelError
from edgeopt.platform.command_line import join_words

SUFFIXES = (".pt", ".pth", ".ts")
"""Suffixes with which `edgeopt import` accepts TorchScript modules."""
# Modules of tensors, their types and containers; any other class is the user's code or a layer.
_OF_WEIGHTS = frozenset({"torch", "collections", "numpy", "builtins", "__builtin__", "_codecs"})
_LAYERS = "torch.nn.modules"
FROM_CODE = (
    "Write a function that makes the model and loads the file into it, and import that: "
    "edgeopt import file.py:NAME -o model.onnx"
)


def import_hint(path: Path, suffixes: tuple[str, ...]) -> str:
    """Returns the command that imports a file, after a renaming if the suffix is wrong."""
    source = path if path.suffix.lower() in suffixes else path.with_suffix(suffixes[0])
    command = join_words(["edgeopt", "import", str(source), "-o", str(path.with_suffix(".onnx"))])
    rename = "" if source == path else f"Rename it to '{source.name}'. "
    return f"{rename}Import it: {command}"


def checkpoint_error(path: Path) -> ModelError | None:
    """Returns why an archive of torch.save is no model; None for TorchScript and for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            pickled = next((name for name in names if name.split("/", 1)[-1] == "data.pkl"), None)
            if pickled is None or any(name.endswith("constants.pkl") for name in names):
                return None
            classes = _classes(archive.read(pickled))
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    own = [each for each in classes if each.startswith(_LAYERS) or each.split(".", 1)[0] not in _OF_WEIGHTS]
    held = f"a pickled object of the class '{own[0]}', which is code" if own else "weights only, no model"
    return ModelError(f"'{path.name}' is a PyTorch checkpoint: it holds {held}.", FROM_CODE)


def _classes(pickled: bytes) -> list[str]:
    """Returns the classes and functions that a pickle names; raises ValueError if it is damaged."""
    found, texts = [], [""]
    for code, value, _ in pickletools.genops(pickled):
        if code.name == "GLOBAL":
            found.append(str(value).replace(" ", "."))
        elif code.name == "STACK_GLOBAL":
            found.append(".".join(texts[-2:]))
        elif isinstance(value, str):
            texts.append(value)
    return found
