"""What a measuring process is asked and answers, one JSON line each, and the files of arrays beside them."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.errors import writing_to
from edgeopt.measure.serve import Failed


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Let go of the model before, load this one, run it, and save what it gives."""

    backend: str
    options: dict[str, str | int]
    model_path: str
    feeds_path: str
    outputs_path: str


class Time(msgspec.Struct, frozen=True, tag="time"):
    """Run what is open over and over for this long, at least once."""

    slice_ms: float


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    load_ms: float


class Timed(msgspec.Struct, frozen=True, tag="timed"):
    run_us: float
    """The median of the slice."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The backend does not take the model."""

    message: str


Request = Open | Time
Answer = Opened | Timed | Refused | Failed

decode_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
decode_answer: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """The names first, then each array as numpy writes it; in an `.npz`, checksums take half of the time."""
    with writing_to(path), path.open("wb") as file:
        np.save(file, np.array(list(arrays)))
        for array in arrays.values():
            np.save(file, array, allow_pickle=False)


def read_arrays(path: Path) -> dict[str, Array]:
    """What `write_arrays` has written."""
    with path.open("rb") as file:
        names = np.load(file, allow_pickle=False)
        return {str(name): np.load(file, allow_pickle=False) for name in names}
