"""The evidence of a bundle: from a search, a precision plan, a prediction, or none."""

from pathlib import Path

import msgspec

from edgeopt.commands.predict.records import Ahead
from edgeopt.graph.ledger import Ledger
from edgeopt.quant.measured.records import Quantized
from edgeopt.search.outcome import Outcome

FILE = "evidence.json"
_PREDICTION = "prediction.json"
_LEDGER = "ledger.json"
_LARGEST_BYTES = 64 << 20

Found = Outcome | Quantized | Ahead
# The first key that is there tells which record it is.
_KINDS: tuple[tuple[str, type[Found]], ...] = (("finish", Ahead), ("candidates", Outcome), ("outcome", Quantized))


def evidence_in(folder: Path) -> Found | str:
    """The content of `evidence.json`, or of the plan for another device; or why there is none."""
    if (folder / _PREDICTION).is_file():
        return _converted(_plain(folder / _PREDICTION), _PREDICTION)
    return _converted(_plain(folder / FILE), FILE)


def _converted(plain: object, name: str) -> Found | str:
    if isinstance(plain, str):
        return plain
    if not isinstance(plain, dict):
        return f"{name} holds no record."
    kind = next((kind for key, kind in _KINDS if key in plain), None)
    if kind is None:
        return f"{name} holds a record that this version of edgeopt does not support."
    try:
        found: Found = msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        return f"{name} cannot be read by this version of edgeopt: {error}."
    return found


def ledger_in(folder: Path) -> Ledger | str:
    """The passes behind the bundle; or why they are not known."""
    plain = _plain(folder / _LEDGER)
    if isinstance(plain, str):
        return plain
    try:
        return msgspec.convert(plain, Ledger)
    except msgspec.ValidationError as error:
        return f"{_LEDGER} cannot be read by this version of edgeopt: {error}."


def _plain(file: Path) -> object:
    try:
        if file.stat().st_size > _LARGEST_BYTES:  # a foreign bundle must not fill the memory
            return f"{file.name} is too large to be read."
        found: object = msgspec.json.decode(file.read_bytes())
    except FileNotFoundError:
        return f"The bundle holds no {file.name}."
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror}."
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"{file.name} is not JSON: {error}."
    return found
