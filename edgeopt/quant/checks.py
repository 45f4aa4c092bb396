"""Checks of calibration data before the long work starts; `edgeopt.data` has already checked that the data can be
read and fits the model's inputs."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from edgeopt.data.samples import Samples
from edgeopt.data.split import FEWEST_TO_PART
from edgeopt.errors import DataError
from edgeopt.graph.accuracy import MASK_FACTOR, OutputAccuracy, compare_outputs, flat

_FEWEST_HIDDEN = 0.1
"""Least share of such values that is worth a warning."""
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


def unjudged_outputs(answers: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    """Returns warnings about outputs of the source model whose values show the accuracy in part or not at all."""
    flattened = [flat(one) for one in answers]
    found = []
    for output in compare_outputs(answers, answers).outputs:
        values = [one[output.name] for one in flattened if output.name in one]
        why = _unjudged(output, values)
        if why is None and output.name in answers[0] and _is_constant(values):
            why = f"is the same on all {len(values)} samples, so its accuracy is that of a single result."
        if why:
            found.append(f"The output '{output.name}' {why}")
    return found


def _unjudged(output: OutputAccuracy, values: Sequence[np.ndarray]) -> str | None:
    size = sum(np.size(one) for one in values)
    if not size:
        return "holds no values on all samples, so nothing of it is compared."
    if output.not_finite == size:
        return "is NaN or infinity everywhere, so it cannot show the accuracy. Check the model and the data."
    if output.silent:
        return "is almost zero on all samples, so it cannot show the accuracy. Check the model and the data."
    if output.not_finite:
        return (
            f"holds {output.not_finite:,} NaN or infinite values of {size:,} on the samples: the accuracy is that "
            "of the others."
        )
    if output.counted:
        return None
    sizes = np.abs(np.concatenate([np.ravel(one) for one in values]).astype(np.float64))
    largest, sizes = float(sizes.max()), sizes[sizes > 0]
    hidden = float(np.mean(sizes < largest / MASK_FACTOR))
    if largest >= MASK_FACTOR and hidden >= _FEWEST_HIDDEN:
        return (
            f"has values of up to {largest:.3g}, and {100 * hidden:.0f} % of its values are less than a "
            f"{MASK_FACTOR:,}th of that. If the large ones are equal in both models, the ratio in dB is that of "
            "the others; if not, it hardly shows errors of the others."
        )
    return None


def _is_constant(values: Sequence[np.ndarray]) -> bool:
    return len(values) > 1 and all(np.array_equal(one, values[0]) for one in values)


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
