"""Classification of files dropped on the window: a model, a bundle, data, or a reason to refuse them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeopt.importing.sources import is_source
from edgeopt.speech.files import ENDING, audio_files
from edgeopt_gui.subject import Subject

MODEL_ENDINGS = frozenset({".onnx", ".ort", ".pb", ".gguf", ""})
"""Suffixes opened as a model; the command line explains the error if the file is none."""
DATA_ENDINGS = frozenset({".npz", ".txt", ENDING})
"""Suffixes of data: samples, texts of a language model, audio of a speech model."""
SCRIPT_ENDING = ".py"
BUNDLE_ENDING = ".edgeopt"
BUNDLE_FILE = "deployment.toml"


@dataclass(frozen=True, slots=True)
class Dropped:
    subject: Subject | None = None
    source: str = ""
    """A model of another framework to import; "" if there is none."""
    data: Path | None = None
    refusal: str = ""
    """The reason why the drop is refused and what to drop instead; "" if it is accepted."""


def sort_out(paths: Sequence[Path], *, has_model: bool) -> Dropped:
    """Classifies dropped paths; `has_model` is whether a model is open that data can belong to."""
    if not paths:
        return Dropped(refusal="Only files and folders of this machine can be dropped here.")
    found = [_one(path) for path in paths]
    refused = next((each for each in found if each.refusal), None)
    if refused is not None:
        return refused
    subjects = [each.subject for each in found if each.subject is not None]
    data = [each.data for each in found if each.data is not None]
    sources = [each.source for each in found if each.source]
    if len(subjects) + len(sources) > 1:
        return Dropped(refusal="Drop one model or bundle at a time.")
    if len(data) > 1:
        return Dropped(
            refusal="Drop the data as one .npz, .txt or .wav file, or as one folder of .npy or .wav files."
        )
    if data and not subjects and not sources and not has_model:
        return Dropped(refusal=f"{data[0].name} looks like data: open the model that it belongs to first.")
    return Dropped(subjects[0] if subjects else None, sources[0] if sources else "", data[0] if data else None)


def _one(path: Path) -> Dropped:
    ending = path.suffix.lower()
    if not path.exists() and is_source(str(path)) and Path(str(path).rpartition(":")[0]).is_file():
        return Dropped(source=str(path))
    if not path.exists():
        return Dropped(refusal=f"{path.name} does not exist; check its path, or choose another file.")
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        return Dropped(refusal=f"{path.name} is not a file that can be read; drop an ONNX model (.onnx).")
    if ending in DATA_ENDINGS:
        return Dropped(data=path)
    if ending == ".npy":
        return Dropped(refusal=f"{path.name} is one array: drop the folder that contains it, or an .npz file.")
    if ending == BUNDLE_ENDING:
        return Dropped(Subject(path, "bundle"))
    if ending == SCRIPT_ENDING or is_source(str(path)):
        return Dropped(source=str(path))
    if path.name == "saved_model.pb":
        return Dropped(source=str(path.parent))
    if ending in MODEL_ENDINGS:
        return Dropped(Subject(path, "model"))
    return Dropped(refusal=f"{path.name} cannot be opened: drop a model, a bundle or data (.npz, .txt, .wav).")


def _folder(path: Path) -> Dropped:
    if path.suffix.lower() == BUNDLE_ENDING or (path / BUNDLE_FILE).is_file():
        return Dropped(Subject(path, "bundle"))
    if is_source(str(path)):
        return Dropped(source=str(path))
    if any(path.glob("*.npy")) or audio_files(path):
        return Dropped(data=path)
    return Dropped(
        refusal=f"{path.name} is not a bundle ({BUNDLE_FILE} is missing) or a model, and contains no data (.npy "
        "or .wav files)."
    )
