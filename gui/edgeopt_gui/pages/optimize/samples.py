"""The number of samples in the user's data, read from headers only: the arrays may be gigabytes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

from edgeopt.errors import DataError, ModelError, error_text
from edgeopt.graph.analysis import TensorFacts
from edgeopt.speech.files import audio_files
from edgeopt.units import count
from edgeopt_gui.pages.optimize.slow import slow

NO_DATA = (
    "Without data only exact rewrites and float precisions are tried, on generated inputs. "
    "Choose some, or drop it on the window."
)
NO_TEXT = (
    "Without a text, candidates are measured and judged on a small text of edgeopt. Choose a text file in UTF-8, "
    "or an .npz with token ids."
)
_PAST = "past_key_values."
_IDS = ("input_ids", "ids")
_TEXT_HINT = "Choose a text file in UTF-8, or an .npz with a row of token ids for each text."
_USE_OF_TEXT = (
    "It is cut into texts of equal length: some are timed, some check candidates, the others prove the winner."
)
_AUDIO_HINT = "Choose a WAV file, a folder of them, or an .npz of features for the encoder."
_USE_OF_AUDIO = "Some windows of the audio are timed, some check candidates, the others prove the winner."

Header = tuple[tuple[int, ...], Any]
"""The shape of an array, and its numpy type."""


def count_samples(path: Path, inputs: tuple[TensorFacts, ...] | None = None) -> int:
    """Counts the samples of an .npz, or of a folder of .npy or pictures; raises DataError if none fit the inputs.

    Names, types and shapes are checked as the search checks them; values are not read.
    """
    how: str = slow("edgeopt.data.samples").HOW
    if not path.exists():
        raise DataError(f"There is no data at '{path}'.", "Choose it again, or another file.")
    pictures: list[Path] = slow("edgeopt.data.preparation").picture_files(path)
    if pictures:
        return len(pictures)
    if audio_files(path):
        raise DataError(f"'{path.name}' is audio, which only the search of a speech model takes.", how)
    headers = _headers_of(path)
    # Arrays such as labels may accompany the inputs, also with one entry for each sample.
    counts = {name: shape[0] for name, (shape, _) in headers.items() if shape}
    if not counts or not min(counts.values()):
        raise DataError(f"'{path.name}' contains no samples.", how)
    if inputs is not None and _fit(headers, inputs, path.name):
        counts = {tensor.name: counts[tensor.name] for tensor in inputs} or counts
    if inputs and len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise DataError(f"The arrays in {path.name} have different numbers of samples ({numbers}).", how)
    return int(min(counts.values()))


def use_of(count: int) -> str:
    """Returns what a search does with this number of samples, as a sentence; more prove where runs are short."""
    from edgeopt.data.split import split

    parts = split(count, from_user=True)
    if not parts.calibration_count:
        few = f"{count} sample{'' if count == 1 else 's'}"
        return f"{few}: too few for 8-bit variants, which need 4. Exact rewrites and float precisions are tried."
    if parts.is_shared:
        return (
            f"{count} samples: {parts.calibration_count} calibrate, {parts.check_count} check and prove the "
            "winner. With 12 or more, precision is planned layer by layer."
        )
    return (
        f"{count:,} samples: {parts.calibration_count} calibrate, at least {parts.check_count} check and "
        f"{parts.prove_count} prove the winner; more do where a run is short."
    )


def use_of_text(path: Path) -> str:
    """Returns what a search for a language model does with this data; raises DataError if it can do nothing.

    `read_texts` of the core has the same rule, and also counts the tokens.
    """
    if path.suffix == ".npz" or path.is_dir():
        headers = _headers_of(path)
        if any(name.startswith(_PAST) for name in headers):
            return (
                f"{path.name} has steps of the cache, not texts, so candidates are measured and judged on a small "
                "text of edgeopt. Choose a text file in UTF-8 to use your own."
            )
        shapes = [headers[name][0] for name in _IDS if name in headers]
        if not shapes:
            raise DataError(f"'{path.name}' has no array '{_IDS[0]}' or '{_IDS[1]}' of token ids.", _TEXT_HINT)
        return f"Token ids. {_USE_OF_TEXT}"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"'{path.name}' cannot be read: {error_text(error)}.", _TEXT_HINT) from error
    except UnicodeDecodeError:
        raise DataError(f"'{path.name}' is not a text in UTF-8.", _TEXT_HINT) from None
    if not text.strip():
        raise DataError(f"'{path.name}' is empty.", _TEXT_HINT)
    return f"A text of {len(text):,} characters. {_USE_OF_TEXT}"


def use_of_audio(path: Path, encoder: Path) -> str:
    """Returns what a search for a speech model does with this data; raises DataError if it can do nothing."""
    if not path.exists():
        raise DataError(f"There is no data at '{path}'.", _AUDIO_HINT)
    if files := len(audio_files(path)):
        return f"{count(files, 'WAV file')}. {_USE_OF_AUDIO}"
    name = slow("edgeopt.pipeline.speech").feature_input(encoder)
    if name not in (headers := _headers_of(path)):
        raise DataError(f"'{path.name}' has no WAV files and no array '{name}' of features.", _AUDIO_HINT)
    return f"Features of {count(headers[name][0][0], 'window')} of audio. {_USE_OF_AUDIO}"


def beside(model: Path) -> Path | None:
    """Returns the .npz beside the model with the model's name; None if there is none."""
    path = model.with_suffix(".npz")
    return path if path.is_file() else None


def _fit(headers: Mapping[str, Header], inputs: tuple[TensorFacts, ...], name: str) -> bool:
    """Whether the model describes its inputs; raises DataError if the arrays do not fit them."""
    import numpy as np

    try:
        tensors = slow("edgeopt.commands.analyze.inputs").infos(inputs, {})
    except ModelError:
        return False
    # One sample of zeros represents all samples: only names, types and shapes are checked.
    ones = {
        key: np.zeros((1, *shape[1:]) if shape else (), dtype)
        for key, (shape, dtype) in headers.items()
        if key in {tensor.name for tensor in inputs}
    }
    others = {key: np.zeros(1) for key in headers if key not in ones}
    slow("edgeopt.data.samples").check_samples({**ones, **others}, tensors, name)
    return True


def _headers_of(path: Path) -> dict[str, Header]:
    """Returns the headers of the arrays in an .npz or a folder, by name; raises DataError."""
    how: str = slow("edgeopt.data.samples").HOW
    try:
        return dict(_headers_in_folder(path) if path.is_dir() else _headers_in_archive(path))
    except BadZipFile as error:
        raise DataError(f"'{path.name}' is not a .npz archive.", how) from error
    except (OSError, ValueError, EOFError, NotImplementedError) as error:
        raise DataError(f"'{path.name}' cannot be read as data: {error_text(error)}.", how) from error


def _headers_in_folder(folder: Path) -> Iterator[tuple[str, Header]]:
    for file in sorted(folder.glob("*.npy")):
        with file.open("rb") as opened:
            yield file.stem, _header(opened)


def _headers_in_archive(path: Path) -> Iterator[tuple[str, Header]]:
    with ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as opened:
                yield name.removesuffix(".npy"), _header(opened)


def _header(file: IO[bytes]) -> Header:
    import numpy as np

    version = np.lib.format.read_magic(file)
    read: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype
