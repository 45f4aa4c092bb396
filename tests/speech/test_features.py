"""Log-mel features against values that WhisperFeatureExtractor of transformers 5.24.0 computed once."""

import json

import numpy as np
import pytest

from edgeopt.errors import ModelError, UsageError
from edgeopt.speech.features import FeatureSettings, load_settings, log_mel

FRAMES = [0, 1, 40, 90, 149, 150, 2999]
EXPECTED = {
    80: [
        [1.0591, 0.4881, -0.6604, -0.6604, -0.1942, 0.3160, -0.6604],
        [0.7878, 0.3361, -0.6604, -0.6604, -0.1894, 0.3208, -0.6604],
        [0.4312, -0.0709, 0.2555, -0.6604, -0.1762, 0.3341, -0.6604],
        [0.1764, -0.3242, -0.3701, -0.6604, -0.1519, 0.3585, -0.6604],
        [-0.4100, -0.6604, -0.6604, 0.8404, -0.0834, 0.4260, -0.6604],
        [0.2856, -0.2184, -0.6604, -0.6604, 0.1476, 0.6463, -0.6604],
        [0.2500, -0.2600, -0.6604, -0.6604, -0.0443, 0.4643, -0.6604],
        [0.0075, -0.5025, -0.6604, -0.6604, -0.2988, 0.2114, -0.6604],
    ],
    128: [
        [0.9833, 0.4124, -0.6113, -0.6113, -0.2699, 0.2403, -0.6113],
        [0.8422, 0.3946, -0.6113, -0.6113, -0.1430, 0.3673, -0.6113],
        [0.4311, -0.0724, 0.0198, -0.6113, -0.1931, 0.3172, -0.6113],
        [0.2159, -0.2856, -0.3070, -0.6113, -0.1227, 0.3877, -0.6113],
        [-0.5020, -0.6113, -0.6113, 0.5603, -0.0929, 0.4164, -0.6113],
        [0.2806, -0.2263, -0.6113, -0.6113, 0.1440, 0.6413, -0.6113],
        [0.2514, -0.2586, -0.6113, -0.6113, -0.0424, 0.4658, -0.6113],
        [0.0100, -0.4999, -0.6113, -0.6113, -0.2963, 0.2139, -0.6113],
    ],
}


def chirp():
    """1.5 s of a rising tone over a fixed one."""
    seconds = np.arange(24_000) / 16_000
    rising = 0.3 * np.sin(2 * np.pi * (200 * seconds + 900 * seconds**2))
    return (rising + 0.05 * np.sin(2 * np.pi * 3000 * seconds)).astype(np.float32)


@pytest.mark.parametrize("mels", EXPECTED)
def test_features_are_those_of_transformers(mels):
    found = log_mel(chirp(), FeatureSettings(feature_size=mels))
    assert (found.shape, found.dtype) == ((mels, 3000), np.float32)
    assert np.allclose(found[:: mels // 8, FRAMES], EXPECTED[mels], atol=1e-4)


def test_audio_longer_than_a_window_is_cut():
    settings = FeatureSettings(chunk_length=1)
    assert np.array_equal(log_mel(chirp(), settings), log_mel(chirp()[:16_000], settings))


def test_settings_are_read(tmp_path):
    with pytest.raises(UsageError, match=r"no preprocessor_config\.json"):
        load_settings(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps({"feature_size": 128, "chunk_length": 2, "nb_max_frames": 200}))
    assert load_settings(tmp_path) == FeatureSettings(feature_size=128, chunk_length=2)
    file.write_text(json.dumps({"feature_extractor_type": "Wav2Vec2FeatureExtractor"}))
    with pytest.raises(ModelError, match="'Wav2Vec2FeatureExtractor'"):
        load_settings(tmp_path)
