"""Log-mel features of Whisper, computed as its feature extractor in transformers does."""

from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edgeopt.backends.base import Array
from edgeopt.errors import ModelError, UsageError
from edgeopt.text.tokenizer import read_json

FILE = "preprocessor_config.json"
_KIND = "WhisperFeatureExtractor"
_LINEAR_HZ, _LINEAR_MELS, _MELS_PER_LOG = 1000.0, 15.0, 27 / np.log(6.4)  # Slaney's scale: linear below 1 kHz
_MIN_POWER = 1e-10
_RANGE = 8.0
"""Values more than this many powers of ten below the largest one are raised to it."""


class FeatureSettings(msgspec.Struct, frozen=True):
    """Settings in `preprocessor_config.json`."""

    feature_extractor_type: str = _KIND
    feature_size: int = 80
    """The number of mel bands."""
    sampling_rate: int = 16_000
    hop_length: int = 160
    n_fft: int = 400
    chunk_length: int = 30
    """Seconds of audio that the encoder takes at once."""
    do_normalize: bool = False

    @property
    def window_samples(self) -> int:
        return self.chunk_length * self.sampling_rate


def load_settings(folder: Path) -> FeatureSettings:
    """Reads the settings in a folder; raises UsageError if there are none, ModelError for other features."""
    found = read_json(folder / FILE, FeatureSettings)
    if found is None:
        raise UsageError(
            f"There is no {FILE} beside the tokenizer, so audio cannot be made into features.",
            "Put it into the folder MODEL.text beside the source model MODEL.onnx.",
        )
    if found.feature_extractor_type != _KIND or found.do_normalize:
        raise ModelError(
            f"The features of '{found.feature_extractor_type}' with do_normalize = {found.do_normalize} are not "
            "supported.",
            f"edgeopt computes those of {_KIND} without normalization.",
        )
    return found


def log_mel(samples: Array, settings: FeatureSettings) -> Array:
    """Returns the features [mels, frames] of one window of audio, filled with silence or cut to its length."""
    window = np.zeros(settings.window_samples)
    length = min(len(samples), len(window))
    window[:length] = samples[:length]
    size = settings.n_fft
    padded = np.pad(window, size // 2, mode="reflect")
    frames = sliding_window_view(padded, size)[:: settings.hop_length][:-1]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    power = np.abs(np.fft.rfft(frames * hann)) ** 2
    logarithms = np.log10(np.maximum(_mel_filters(settings) @ power.T, _MIN_POWER))
    result: Array = ((np.maximum(logarithms, logarithms.max() - _RANGE) + 4) / 4).astype(np.float32)
    return result


@lru_cache(maxsize=2)
def _mel_filters(settings: FeatureSettings) -> Array:
    """Returns the triangular filters of Slaney's toolbox, each of the same area: [mels, frequencies]."""
    highest = settings.sampling_rate / 2
    frequencies = np.linspace(0, highest, settings.n_fft // 2 + 1)
    mels = np.linspace(0, _LINEAR_MELS + _MELS_PER_LOG * np.log(highest / _LINEAR_HZ), settings.feature_size + 2)
    above = _LINEAR_HZ * np.exp((mels - _LINEAR_MELS) / _MELS_PER_LOG)
    edges = np.where(mels < _LINEAR_MELS, mels * _LINEAR_HZ / _LINEAR_MELS, above)[:, None]
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    result: Array = np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])
    return result
