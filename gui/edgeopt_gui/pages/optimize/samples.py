"""What the user's data is good for, from its headers alone: the arrays themselves may be gigabytes."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

from edgeopt.errors import DataError, said_by
from edgeopt_gui.pages.optimize.slow import slow

NO_DATA = (
    "Without data only exact rewrites and float precisions are tried, on generated inputs. "
    "Choose some, or drop it on the window."
)


def count_samples(path: Path) -> int:
    """How many samples an .npz or a folder of .npy holds; raises DataError where it holds none."""
    how: str = slow("edgeopt.data.samples").HOW
    if not path.exists():
        raise DataError(f"There is no data at '{path}'.", "Choose it again, or another file.")
    try:
        shapes = list(_shapes_in_folder(path) if path.is_dir() else _shapes_in_archive(path))
    except BadZipFile as error:
        raise DataError(f"'{path.name}' is no .npz archive.", how) from error
    except (OSError, ValueError, EOFError, NotImplementedError) as error:
        raise DataError(f"'{path.name}' cannot be read as data: {said_by(error)}.", how) from error
    # Labels and the like lie beside the inputs, one for each sample too.
    counts = [shape[0] for shape in shapes if shape]
    if not counts or not min(counts):
        raise DataError(f"'{path.name}' holds no sample.", how)
    return int(min(counts))


def use_of(count: int) -> str:
    """What a search does with so many samples, as a sentence."""
    from edgeopt.data.split import split

    parts = split(count, given=True)
    if not parts.calibration_count:
        few = f"{count} sample{'' if count == 1 else 's'}"
        return f"{few}: too few for 8-bit variants, which need 12. Exact rewrites and float precisions are tried."
    return (
        f"{count:,} samples: {parts.calibration_count} calibrate, {parts.check_count} check, "
        f"{parts.prove_count} prove the winner."
    )


def _shapes_in_folder(folder: Path) -> Iterator[tuple[int, ...]]:
    for file in sorted(folder.glob("*.npy")):
        with file.open("rb") as opened:
            yield _shape(opened)


def _shapes_in_archive(path: Path) -> Iterator[tuple[int, ...]]:
    with ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as opened:
                yield _shape(opened)


def _shape(file: IO[bytes]) -> tuple[int, ...]:
    import numpy as np

    version = np.lib.format.read_magic(file)
    read: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape: tuple[int, ...] = read(file)[0]
    return shape
