"""Sources that can be imported, and the recognition of a path or a name as one of them."""

import os
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.errors import InputError, ModelError, UsageError
from edgeopt.importing.huggingface import check_folder, generates, transcribes

if TYPE_CHECKING:
    from edgeopt.plugins import Offer


class Source(msgspec.Struct, frozen=True):
    """Kind of source."""

    kind: str
    title: str
    suffixes: tuple[str, ...] = ()
    """Suffixes of the file; empty: code, written as `file.py:NAME` or `package.module:NAME`."""
    child: str = ""
    """Script that imports the source; empty: edgeopt imports it itself."""
    marker: str = ""
    """File that makes a folder this source."""
    pickled: bool = False
    zipped: bool = False
    decodes: bool = False
    """Whether it is a language or speech model, which is proved through its cache."""
    encoder_child: str = ""
    """Script that imports the encoder of a speech model as a model of its own."""


SOURCES = (
    Source("onnx", "ONNX model", (".onnx",)),
    Source("sklearn", "scikit-learn model", (".joblib", ".pkl", ".pickle"), "sklearn_child.py", pickled=True),
    Source("torch-program", "PyTorch exported program", (".pt2",), "torch_child.py", zipped=True),
    Source("torchscript", "TorchScript module", (".pt", ".pth", ".ts"), "torch_child.py", zipped=True),
    Source("torch", "PyTorch module", (), "torch_child.py"),
    Source("keras", "Keras model", (".keras",), "tf_child.py", zipped=True),
    Source("keras-h5", "Keras HDF5 model", (".h5", ".hdf5"), "tf_child.py"),
    Source("tflite", "TFLite model", (".tflite",), "tf_child.py"),
    Source("savedmodel", "SavedModel", (), "tf_child.py", "saved_model.pb"),
    Source("huggingface", "Hugging Face folder", (), "hf_child.py", "config.json"),
    Source("genai", "ONNX Runtime GenAI folder", marker="genai_config.json", decodes=True),
)

LANGUAGE_MODEL = Source("huggingface", "Hugging Face language model", child="lm_child.py", decodes=True)
SPEECH_MODEL = Source(
    "huggingface", "Hugging Face speech model", child="speech_child.py", decodes=True,
    encoder_child="speech_encoder_child.py",
)  # fmt: skip


def sources() -> tuple[Source, ...]:
    """Returns edgeopt's own sources, then those of plug-ins that can be used."""
    from edgeopt.plugins import offered

    return (*SOURCES, *(_of_plugin(offer) for offer in offered("importer") if not offer.problem))


def _of_plugin(offer: "Offer") -> Source:
    from edgeopt.plugins.registry import script_of

    return Source(offer.name, offer.title, offer.suffixes, str(script_of(offer) or ""))


_CODE = re.compile(r"(?P<place>.+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_][\w.]*)")
_SCRIPT = "A PyTorch module needs the name of its class, instance or function: {}:NAME"


class Recognized(msgspec.Struct, frozen=True):
    """Recognized source: its kind, its file or module, and the name inside."""

    source: Source
    place: str
    name: str = ""

    @property
    def shown(self) -> str:
        """Returns the source without its folder, which may reveal more than the model's users are to know."""
        file = Path(self.place).name
        return f"{file}:{self.name}" if self.name else file


def is_source(text: str) -> bool:
    """Whether a framework opens the source, judged by its name alone."""
    found = source_of(text)
    return found is not None and bool(found.child)


def source_of(text: str) -> Source | None:
    """Returns the kind by the name alone: code, a suffix, or the marker in a folder; `recognize` looks inside."""
    path = Path(text)
    if path.is_dir():
        return next((each for each in SOURCES if each.marker and (path / each.marker).is_file()), None)
    if _CODE.fullmatch(text) and not path.exists():
        return next(each for each in SOURCES if each.kind == "torch")
    return _of_suffix(path)


def recognize(text: str, trust: bool = False, task: str = "") -> Recognized:
    """Returns the kind of source; raises an error for one that cannot be imported."""
    code = _CODE.fullmatch(text)
    if code is not None and not Path(text).exists():
        place, name = code["place"], code["name"]
        if place.endswith(".py") and not Path(place).is_file():
            raise InputError(f"There is no file '{place}'.", "Check the path.")
        return Recognized(next(each for each in SOURCES if each.kind == "torch"), place, name)
    path = Path(text)
    if not path.exists():
        raise InputError(f"There is no file '{text}'.", "Check the path, or name code as file.py:NAME.")
    if path.is_dir():
        return Recognized(_of_folder(path, trust, task), str(path.absolute()))
    if path.suffix == ".py":
        raise UsageError(f"'{text}' is a Python file.", _SCRIPT.format(text))
    source = _of_suffix(path)
    if source is None:
        raise InputError(f"'{path.name}' has the suffix of no known source.", _known())
    if source.pickled and not trust:
        raise UsageError(
            f"'{path.name}' is a pickle: opening it can run any code that its author put in.",
            "Add --trust if you trust its author.",
        )
    _check_content(path, source)
    return Recognized(source, str(path.absolute()))


def _of_folder(path: Path, trust: bool, task: str) -> Source:
    found = [each for each in SOURCES if each.marker and (path / each.marker).is_file()]
    if not found:
        models = sorted(file.name for file in path.iterdir() if _of_suffix(file) is not None)
        if models:
            hint = f"Name one of its files: {', '.join(models)}."
            raise InputError(f"The folder '{path}' is not a model itself.", hint)
        what = "contains no model that can be imported" if any(path.iterdir()) else "is empty"
        raise InputError(f"The folder '{path}' {what}.", _known())
    if len(found) > 1 and not (path / "model.safetensors").is_file():
        # The builder's folders may also have the config.json of the original.
        found = [each for each in found if each.kind == "genai"] or found
    if len(found) > 1:
        both = " and a ".join(f"{each.title} ({each.marker})" for each in found)
        raise InputError(f"The folder '{path}' holds a {both}.", "Move one of them to a folder of its own.")
    (source,) = found
    if source.kind == "huggingface":
        check_folder(path, trust)
        if transcribes(path, task):
            return SPEECH_MODEL
        return LANGUAGE_MODEL if generates(path, task) else source
    return source


def _of_suffix(path: Path) -> Source | None:
    suffix = path.suffix.lower()
    if not suffix:
        return None
    found = next((each for each in SOURCES if suffix in each.suffixes), None)
    return found or next((each for each in sources() if suffix in each.suffixes), None)


def _check_content(path: Path, source: Source) -> None:
    from edgeopt.graph.files.checkpoints import FROM_CODE, checkpoint_error

    if not os.access(path, os.R_OK):
        raise InputError(f"'{path.name}' cannot be read: you lack the permission.", f"Allow it: chmod u+r {path}")
    if path.stat().st_size == 0:
        raise ModelError(f"'{path.name}' is empty.", "Save or download it again.")
    if source.kind == "torchscript" and (error := checkpoint_error(path)) is not None:
        raise error
    if source.zipped and not zipfile.is_zipfile(path):
        raise ModelError(
            f"'{path.name}' is not a complete {source.title}.",
            f"Save or download it again. For weights: {FROM_CODE[:1].lower()}{FROM_CODE[1:]}"
            if source.kind == "torchscript"
            else "Save or download it again.",
        )


def _known() -> str:
    suffixes = ", ".join(suffix for each in sources() for suffix in each.suffixes)
    markers = " or ".join(each.marker for each in SOURCES if each.marker)
    return f"Give a file ({suffixes}), a folder with {markers}, or code as file.py:NAME or package.module:NAME."
