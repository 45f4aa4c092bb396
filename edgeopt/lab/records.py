"""The results of a lab: a cell for each model on each device."""

import math
from pathlib import Path
from typing import Literal

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError
from edgeopt.measure.files import writing
from edgeopt.measure.stats import Interval, with_open_ends

FILE = "results.json"
BUNDLES = "bundles"
SCHEMA = 1


class CellKey(msgspec.Struct, frozen=True):
    """Values that must be unchanged for a finished cell to be kept."""

    model_digest: str
    data_digest: str
    options: tuple[str, ...]
    """Arguments of the search, without its files."""
    device: tuple[str, ...]
    """Address, cores and instruction sets of the device, as the lab file has them."""
    version: str
    """Version of edgeopt."""


class LabRace(msgspec.Struct, frozen=True):
    """The new bundle measured against an earlier one, interleaved on the same device."""

    against_digest: str
    """Digest of the earlier bundle."""
    state: Literal["held", "broken", "undecided", "not judged"]
    """Position of the interval: within the limit, beyond it, or neither."""
    sentence: str
    speedup: Interval | None = None
    begin_s: float = 0.0
    end_s: float = 0.0


class LabCell(msgspec.Struct, frozen=True):
    model: str
    device: str
    status: Literal["waiting", "running", "done", "failed"]
    key: CellKey
    phase: str = ""
    reason: str = ""
    """Reason of a failure."""
    hint: str = ""
    kept: bool = False
    """Whether an earlier run finished the cell."""
    bundle: str = ""
    """Place of the bundle in the folder of the results."""
    fingerprint: dict[str, str] = {}
    """Fingerprint of the device, by part."""
    verdict: str = ""
    summary: str = ""
    winner: str = ""
    speedup: Interval | None = None
    """Speed relative to the baseline."""
    latency_ms: float | None = None
    baseline_ms: float | None = None
    accuracy_db: float | None = None
    peak_bytes: int | None = None
    begin_s: float = 0.0
    """Time of the start of the search, in seconds since 1970."""
    end_s: float = 0.0
    race: LabRace | None = None
    earlier: "LabCell | None" = None
    """Result of an earlier run, while this one cannot show whether it is still valid: the model cannot be read, or
    the device does not answer."""

    @property
    def name(self) -> str:
        return f"{self.model} on {self.device}"


class LabResults(msgspec.Struct, frozen=True):
    lab: str
    models: tuple[str, ...]
    devices: tuple[str, ...]
    cells: tuple[LabCell, ...]
    max_slowdown: str = ""
    """Limit of the comparison with earlier results; empty if there was none."""
    against: str = ""
    schema: int = SCHEMA

    @property
    def failed(self) -> tuple[LabCell, ...]:
        return tuple(each for each in self.cells if each.status != "done")

    @property
    def slower(self) -> tuple[LabCell, ...]:
        """Returns the cells that are proved slower than the earlier bundle by more than the limit."""
        return tuple(each for each in self.cells if each.race is not None and each.race.state == "broken")

    @property
    def compared(self) -> tuple[LabCell, ...]:
        """Returns the cells that were measured against an earlier bundle and judged."""
        return tuple(each for each in self.cells if each.race is not None and each.race.state != "not judged")

    @property
    def not_compared(self) -> tuple[LabCell, ...]:
        """Returns the cells whose measurement against an earlier bundle failed."""
        return tuple(each for each in self.cells if each.race is not None and each.race.state == "not judged")

    @property
    def without_race(self) -> tuple[LabCell, ...]:
        """Returns the complete cells without a measurement against an earlier bundle, most as there is none."""
        return tuple(each for each in self.cells if self.against and each.status == "done" and each.race is None)


def results_file(path: Path) -> Path:
    return path / FILE if path.is_dir() else path


def read_results(path: Path) -> LabResults:
    """Reads a folder of results, or its results.json; raises InputError."""
    file = results_file(path)
    try:
        plain = with_open_ends(msgspec.json.decode(file.read_bytes()))
        results = msgspec.convert(plain, thread_safe(LabResults))
    except FileNotFoundError:
        raise InputError(f"There are no results at '{path}'.", "Name the folder that -o named.") from None
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InputError(f"'{file}' cannot be read as results: {error}.", "Name another folder.") from None
    cells = tuple(_at_rest(each) for each in results.cells)
    return msgspec.structs.replace(results, cells=cells)


def _at_rest(cell: LabCell) -> LabCell:
    """Returns the cell as waiting if the file has it as running: an interrupted run could leave that."""
    return msgspec.structs.replace(cell, status="waiting", phase="") if cell.status == "running" else cell


def write_results(results: LabResults, folder: Path) -> None:
    with writing(folder / FILE) as file:
        file.write(msgspec.json.format(msgspec.json.encode(results), indent=1))


def finite(value: float | None) -> float | None:
    """Returns the value, or None for infinity, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None
