"""Makes a model's input of pixels: size, crop, colour order, scale, mean and deviation, layout, type."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgeopt.backends.base import Array
from edgeopt.errors import DataError, MissingExtraError, error_text
from edgeopt.profiles.schema import Data

_Floats = npt.NDArray[np.float32]
_Doubles = npt.NDArray[np.float64]
# ITU-R 601, as every reader of pictures uses it.
_GRAY = np.array([0.299, 0.587, 0.114], np.float32)
_FIXED_POINT = 1 << 22
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff")


def prepare(pictures: Array, preparation: Data, where: str) -> Array:
    """Bytes of pictures, samples first and channels last (or none), as input of a model; raises DataError."""
    chosen = evenly(len(pictures), preparation.most_samples)
    return together([(prepare_one(pictures[k], preparation, where), f"{where}, sample {k}") for k in chosen])


def evenly(there: int, maximum: int) -> list[int]:
    """Returns at most this number of positions, evenly spread."""
    count = min(there, maximum)
    return [k * there // count for k in range(count)]


def prepare_one(pixels: Array, preparation: Data, where: str) -> Array:
    """Prepares one picture; `where` names it in an error."""
    channels = pixels[:, :, None] if pixels.ndim == 2 else pixels[:, :, :3]
    values = _cropped(_sized(channels, preparation), preparation.crop, where)
    values = _coloured(values, preparation.colour_order)
    mean, std = (
        np.asarray(numbers, np.float32) for numbers in (preparation.mean or (0,), preparation.std or (1,))
    )
    scaled: _Floats = (values * np.float32(preparation.scale) - mean) / std
    if preparation.layout == "nchw":
        scaled = scaled.transpose(2, 0, 1)
    return _typed(scaled, preparation.dtype, where)


def together(prepared: list[tuple[Array, str]]) -> Array:
    """Joins prepared pictures, each with its name, to one array; raises DataError if their sizes differ."""
    if not prepared:
        raise DataError("The data holds no picture.", "Give a folder or an array with some.")
    first, name = prepared[0]
    for other, other_name in prepared:
        if other.shape != first.shape:
            raise DataError(
                f"{name} becomes {list(first.shape)}, but {other_name} becomes {list(other.shape)}.",
                "Set resize and crop in [data] of the profile, so that all have one size.",
            )
    return np.stack([picture for picture, _ in prepared])


def _sized(pixels: Array, preparation: Data) -> _Floats:
    height, width = pixels.shape[:2]
    if preparation.letter_box:
        return _letter_boxed(pixels, preparation)
    sizes = preparation.resize
    if len(sizes) == 1:
        shorter = min(height, width)
        # The longer side is cut off to a whole number, as in torchvision and transformers.
        sizes = tuple(max(1, side * sizes[0] // shorter) for side in (height, width))
    return _resized(pixels, sizes, preparation)


def _letter_boxed(pixels: Array, preparation: Data) -> _Floats:
    box = preparation.letter_box * 2 if len(preparation.letter_box) == 1 else preparation.letter_box
    ratio = min(maximum / side for maximum, side in zip(box, pixels.shape, strict=False))
    # Halves go up; the picture always fits.
    sizes = tuple(max(1, int(side * ratio + 0.5)) for side in pixels.shape[:2])
    made = _resized(pixels, sizes, preparation)
    whole = np.full((*box, made.shape[2]), preparation.fill, np.float32)
    spare = [maximum - side for maximum, side in zip(box, sizes, strict=True)]
    top, left = (each // 2 for each in spare) if preparation.place == "middle" else (0, 0)
    whole[top : top + sizes[0], left : left + sizes[1]] = made
    return whole


def _resized(pixels: Array, sizes: tuple[int, ...], preparation: Data) -> _Floats:
    values: Array = pixels.astype(np.float32)
    for size, axis in _in_order(pixels, sizes):
        if size == values.shape[axis]:
            continue
        weights = _weights(values.shape[axis], size, preparation.filter)
        if preparation.rounded:
            # The fixed point of Pillow, whose sums double precision holds exactly.
            whole = np.copysign(np.floor(np.abs(weights) * _FIXED_POINT + 0.5), weights)
            values = np.floor(_along(values, whole, axis) / _FIXED_POINT + 0.5)
        else:
            values = _along(values, weights.astype(np.float32), axis)
        values = values if preparation.filter == "bilinear" else np.clip(values, 0, 255)
    return values.astype(np.float32)


def _in_order(pixels: Array, sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Returns size and axis of the two resizing steps, in order, which matters for rounded intermediate values.

    It is the order of Pillow 13; earlier versions always resize the width first.
    """
    if not sizes:
        return ()
    (height, width), (to_height, to_width) = pixels.shape[:2], sizes
    is_tall = height > to_height and height - to_height > 2 * (width - to_width)
    return ((to_height, 0), (to_width, 1)) if is_tall else ((to_width, 1), (to_height, 0))


def _along(values: Array, weights: Array, axis: int) -> Array:
    """Returns each new line as the weighted sum of the few old ones with a weight in it."""
    size, there = weights.shape
    worthy = weights != 0
    first, last = worthy.argmax(axis=1), there - 1 - worthy[:, ::-1].argmax(axis=1)
    count = int((last - first).max()) + 1
    first = np.minimum(first, there - count)
    shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    total = np.zeros([size if k == axis else side for k, side in enumerate(values.shape)], weights.dtype)
    for place in range(count):
        lines = first + place
        worth = weights[np.arange(size), lines].reshape(shape)
        total += np.take(values, lines, axis=axis) * worth
    return total


def _weights(source: int, target: int, name: str) -> _Doubles:
    """Returns the weight of each old line in each new one: a filter, which is wider if the picture shrinks.

    These are the filters with antialiasing of Pillow and torchvision: without it, a small picture would consist
    of single pixels of the large one.
    """
    scale = source / target
    centres = (np.arange(target) + 0.5) * scale
    distance = np.abs(np.arange(source) + 0.5 - centres[:, None]) / max(scale, 1.0)
    weights = np.clip(1.0 - distance, 0.0, None) if name == "bilinear" else _cubic(distance)
    normalized: _Doubles = weights / weights.sum(axis=1, keepdims=True)
    return normalized


def _cubic(distance: _Doubles) -> _Doubles:
    """Returns the cubic filter with a = -0.5 of Catmull and Rom."""
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    found: _Doubles = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
    return found


def _cropped(values: _Floats, sizes: tuple[int, ...], where: str) -> _Floats:
    if not sizes:
        return values
    height, width = sizes * 2 if len(sizes) == 1 else sizes
    if height > values.shape[0] or width > values.shape[1]:
        raise DataError(
            f"{where} is {values.shape[0]}x{values.shape[1]} and cannot be cropped to {height}x{width}.",
            "Set a larger resize in [data] of the profile.",
        )
    top, left = (values.shape[0] - height) // 2, (values.shape[1] - width) // 2
    return values[top : top + height, left : left + width]


def _coloured(values: _Floats, order: str) -> _Floats:
    channels = values.shape[2]
    if order == "gray":
        return values if channels == 1 else values @ _GRAY[:, None]
    coloured = np.repeat(values, 3, axis=2) if channels == 1 else values
    return coloured[:, :, ::-1] if order == "bgr" else coloured


def _typed(values: _Floats, dtype: str, where: str) -> Array:
    target = np.dtype(dtype)
    if target.kind in "iu":
        values = np.rint(values)
        limits = np.iinfo(target)
        if values.min() < limits.min or values.max() > limits.max:
            raise DataError(
                f"{where} has values from {values.min():g} to {values.max():g}, which do not fit into {dtype}.",
                "Change scale, mean or dtype in [data] of the profile.",
            )
    return np.ascontiguousarray(values, dtype=target)


def picture_files(path: Path) -> list[Path]:
    """Returns the pictures in a folder and its subfolders, by name; an empty list if it holds arrays."""
    if not path.is_dir() or any(path.glob("*.npy")):
        return []
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and file.is_file())


def read_pictures(files: list[Path], preparation: Data) -> Array:
    """Returns the prepared pictures as one array, samples first; too many are reduced to an even selection."""
    chosen = [files[k] for k in evenly(len(files), preparation.most_samples)]
    return together([(prepare_one(_pixels(file), preparation, str(file)), str(file)) for file in chosen])


def _pixels(file: Path) -> Array:
    """Reads a picture as height, width and three channels, red first; raises DataError if it is damaged."""
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
            f"'{file}' cannot be read as a picture: {error_text(error)}", "Take it out of the folder."
        ) from error
    return pixels
