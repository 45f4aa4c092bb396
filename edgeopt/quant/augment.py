"""More samples to calibrate with, made of those there are: with noise, and at another scale."""

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.errors import UsageError


def augmented(samples: Samples, noise: float = 0.0, scaling: float = 0.0, seed: int = 0) -> Samples:
    """The samples, and then each once more with noise and at another scale; the same for the same seed.

    `noise` is a share of each input's own deviation, and a factor lies within `scaling` of 1. Only inputs of
    floats change: numbers of tokens, masks and lengths mean something else when they differ.
    """
    _check(noise, scaling)
    if noise == 0 and scaling == 0:
        return samples
    random = np.random.default_rng(seed)
    factors = random.uniform(1 - scaling, 1 + scaling, len(samples))
    arrays = {
        name: np.concatenate([array, _changed(array, noise, factors, random)])
        for name, array in samples.arrays.items()
    }
    return Samples(arrays, samples.ranks, samples.ignored)


def _changed(array: Array, noise: float, factors: Array, random: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    scaled = array * factors.reshape(-1, *(1,) * (array.ndim - 1))
    spread = float(array.std(dtype=np.float64)) * noise
    for index in range(len(scaled)):  # the noise of one sample at a time
        scaled[index] += random.standard_normal(scaled.shape[1:]) * spread
    return np.asarray(scaled.astype(array.dtype))


def _check(noise: float, scaling: float) -> None:
    if not 0 <= noise < np.inf:
        raise UsageError(f"Noise of {noise:g} is not a share.", "Give a number from 0 up, such as 0.01.")
    if not 0 <= scaling < 1:
        raise UsageError(
            f"Scaling of {scaling:g} is not a share.", "Give a number from 0 to below 1, such as 0.1."
        )
