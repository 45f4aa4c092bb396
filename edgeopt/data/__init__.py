"""The user's data: samples for a model's inputs, checked before the long work starts."""

from edgeopt.data.read import load_data
from edgeopt.data.samples import (
    HOW,
    Samples,
    check_samples,
    from_feeds,
    open_samples,
    save_samples,
    write_archive,
)

__all__ = [
    "HOW",
    "Samples",
    "check_samples",
    "from_feeds",
    "load_data",
    "open_samples",
    "save_samples",
    "write_archive",
]
