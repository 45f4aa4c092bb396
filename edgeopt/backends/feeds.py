"""The slow way of looking at feeds, taken only when the fast way of a session did not work out."""

from edgeopt.backends.base import Array, Feeds, TensorInfo, check_feeds
from edgeopt.errors import DataError, UsageError


def prepare(inputs: tuple[TensorInfo, ...], feeds: Feeds) -> dict[str, Array]:
    """The feeds as arrays in this machine's byte order, or a DataError that says what is wrong with them."""
    import numpy as np

    sentence = check_feeds(inputs, feeds)
    if sentence is not None:
        raise DataError(sentence, "`edgeopt analyze MODEL` lists the inputs.")
    arrays: dict[str, Array] = {}
    for info in inputs:
        array = np.asarray(feeds[info.name])
        if info.dtype == "str" and not all(isinstance(text, str) for text in array.flat):
            raise DataError(
                f"The input '{info.name}' must hold only strings.", "Convert the values with str() first."
            )
        arrays[info.name] = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return arrays


def closed() -> UsageError:
    return UsageError("This session is closed.", "Load the model again to run it.")
