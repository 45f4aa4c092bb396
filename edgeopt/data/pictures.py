"""Folders of pictures: which files, and their pixels; needs Pillow, which few devices have."""

from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.preparation import evenly, prepare_one, together
from edgeopt.errors import DataError, MissingExtraError, said_by
from edgeopt.profiles.schema import Data

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff")


def picture_files(path: Path) -> list[Path]:
    """The pictures in a folder and those below it, by name; none where it holds arrays."""
    if not path.is_dir() or any(path.glob("*.npy")):
        return []
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file())


def read_pictures(files: list[Path], preparation: Data) -> Array:
    """The prepared pictures as one array, samples first; of too many some, evenly spread."""
    chosen = [files[k] for k in evenly(len(files), preparation.most_samples)]
    return together([(prepare_one(_pixels(file), preparation, str(file)), str(file)) for file in chosen])


def _pixels(file: Path) -> Array:
    """Height, width and three channels, red first."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("images", "Reading pictures") from error
    try:
        with Image.open(file) as opened:
            pixels: Array = np.asarray(opened.convert("RGB"), np.uint8)
    # A damaged file makes Pillow raise whatever its decoders do.
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise DataError(
            f"'{file}' cannot be read as a picture: {said_by(error)}", "Take it out of the folder."
        ) from error
    return pixels
