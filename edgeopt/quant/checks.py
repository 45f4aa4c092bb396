"""Checks of calibration data before the long work starts; `edgeopt.data` has already checked that the data can be
read and fits the model's inputs."""

import hashlib

import numpy as np

from edgeopt.data.samples import Samples
from edgeopt.data.split import FEWEST_TO_PART
from edgeopt.errors import DataError

_WITHOUT_DATA = "Schemes without calibration are int8-dynamic, int8-groups, w8, w4, fp16 and bf16"


def check_differ(samples: Samples, hint: str = "") -> int:
    """Returns the number of different samples; raises a DataError if all of several samples are equal."""
    count, different = len(samples), _different(samples)
    if different == 1 < count:
        raise DataError(
            f"All {count} samples of the data are equal: they do not represent other inputs.",
            f"Give {FEWEST_TO_PART} or more realistic, different samples.{hint}",
        )
    return different


def check_data(samples: Samples) -> tuple[str, ...]:
    """Returns warnings about samples that calibrate badly; raises a DataError if they cannot calibrate."""
    count = len(samples)
    if count == 1:
        raise DataError(
            "The data holds one sample: its ranges do not fit others, and no sample is left to check the result.",
            f"Give {FEWEST_TO_PART} or more realistic, different samples. {_WITHOUT_DATA}.",
        )
    different = check_differ(samples, f" {_WITHOUT_DATA}.")
    return (*_too_few(count, different), *_never_vary(samples))


def _too_few(count: int, different: int) -> tuple[str, ...]:
    if count < FEWEST_TO_PART:
        message = (
            f"The data holds {count} samples; with fewer than {FEWEST_TO_PART} the same ones must calibrate, "
        )
        return (f"{message}plan and prove, so that the error on unseen inputs may be larger. {_WITHOUT_DATA}.",)
    if different < FEWEST_TO_PART:
        message = (
            f"Only {different} of the {count} samples differ: the proof is made on samples that calibration saw."
        )
        return (f"{message} Give {FEWEST_TO_PART} or more different ones.",)
    return ()


def _different(samples: Samples) -> int:
    """Counts the different samples, up to FEWEST_TO_PART."""
    found: set[bytes] = set()
    for index in range(len(samples)):
        digest = hashlib.blake2b(digest_size=16)
        for name in samples.arrays:
            one = samples.arrays[name][index]
            digest.update(str(one.tolist()).encode() if one.dtype.kind in "OU" else np.ascontiguousarray(one).data)
        found.add(digest.digest())
        if len(found) >= FEWEST_TO_PART:
            break
    return len(found)


def _never_vary(samples: Samples) -> tuple[str, ...]:
    """Returns warnings about float inputs that hold a single value in all samples."""
    return tuple(
        (
            f"The input '{name}' is {float(array.flat[0]):.3g} everywhere in the data: calibration covers "
            "no other value."
        )
        for name, array in samples.arrays.items()
        if array.dtype.kind == "f" and array.size > len(samples) and not np.ptp(array)
    )
