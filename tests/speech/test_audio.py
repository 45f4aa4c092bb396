"""Audio files and arrays as samples, and the conversion of sampling rates."""

import re
import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from edgeopt.errors import DataError
from edgeopt.speech.audio import read_wav, resample, samples_of

RATE_HZ = 16_000


def tone(hz, rate_hz, seconds=2):
    return np.sin(2 * np.pi * hz * np.arange(int(seconds * rate_hz)) / rate_hz)


def spectrum(samples):
    """Returns the amplitude at each frequency in Hz, without the ends of the signal."""
    middle = samples[RATE_HZ // 4 : -RATE_HZ // 4]
    window = np.hanning(len(middle))
    return np.fft.rfftfreq(len(middle), 1 / RATE_HZ), np.abs(np.fft.rfft(middle * window)) * 2 / window.sum()


@pytest.mark.parametrize("rate_hz", [8000, 11_025, 22_050, 44_100, 48_000, 96_000])
def test_a_tone_keeps_frequency_and_amplitude_at_another_rate(rate_hz):
    found = resample(tone(1000, rate_hz), rate_hz, RATE_HZ)
    assert len(found) == 2 * RATE_HZ
    frequencies, amplitudes = spectrum(found)
    assert frequencies[amplitudes.argmax()] == 1000
    assert amplitudes.max() == pytest.approx(1, abs=0.01)
    assert np.abs(found - tone(1000, RATE_HZ))[500:-500].max() < 1e-3
    assert amplitudes[np.abs(frequencies - 1000) > 50].max() < 1e-3


@pytest.mark.parametrize("hz", [8200, 9000, 12_000, 15_900, 20_000])
@pytest.mark.parametrize("rate_hz", [44_100, 48_000])
def test_tones_that_the_lower_rate_cannot_hold_are_removed(hz, rate_hz):
    _, amplitudes = spectrum(resample(tone(hz, rate_hz), rate_hz, RATE_HZ))
    assert amplitudes.max() < 1e-3


def riff(data, kind, bits, channels=1, rate_hz=RATE_HZ, extra=b"", size=None):
    layout = struct.pack("<HHIIHH", kind, channels, rate_hz, rate_hz * channels * bits // 8, 0, bits) + extra
    chunks = b"LIST" + struct.pack("<I", 3) + b"odd\0" + b"fmt " + struct.pack("<I", len(layout)) + layout
    chunks += b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


@pytest.mark.parametrize(("width", "worst"), [(1, 1 / 128), (2, 2**-15), (3, 2**-23), (4, 1e-7)])
def test_pcm_of_every_width_is_read_and_channels_are_averaged(tmp_path, width, worst):
    left, right = 0.5 * tone(440, 8000), 0.25 * tone(660, 8000)
    values = np.stack([left, right], axis=1).ravel()
    whole = np.round(values * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    data = b"".join(
        int(each + (128 if width == 1 else 0)).to_bytes(4, "little", signed=True)[:width] for each in whole
    )
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((2, width, 8000, 0, "NONE", ""))
        file.writeframes(data)
    found, rate_hz = read_wav(Path("a.wav"), (tmp_path / "a.wav").read_bytes())
    assert (rate_hz, found.dtype) == (8000, np.float32)
    assert np.abs(found - (left + right) / 2).max() <= 1.01 * worst


@pytest.mark.parametrize("kind", ["float", "double", "extensible"])
def test_floats_and_the_extensible_format_are_read(tmp_path, kind):
    samples = 0.5 * tone(440, RATE_HZ, 0.1)
    content = {
        "float": lambda: riff(samples.astype("<f4").tobytes(), 3, 32),
        "double": lambda: riff(samples.astype("<f8").tobytes(), 3, 64),
        "extensible": lambda: riff(
            (samples * 32767).astype("<i2").tobytes(), 0xFFFE, 16, extra=struct.pack("<HHIH14x", 22, 16, 4, 1)
        ),
    }[kind]()
    (tmp_path / "a.wav").write_bytes(content)
    assert np.abs(samples_of(tmp_path / "a.wav", RATE_HZ) - samples).max() < 1e-4


def test_a_file_that_was_written_to_a_pipe_has_the_samples_that_are_there(tmp_path):
    (tmp_path / "a.wav").write_bytes(riff(np.ones(5, "<i2").tobytes() + b"\0", 1, 16, size=2**32 - 1))
    assert len(samples_of(tmp_path / "a.wav", RATE_HZ)) == 5


@pytest.mark.parametrize(
    ("content", "says", "hint"),
    [
        (b"ID3 an mp3", "is not a WAV file", r"ffmpeg -i \S*a.wav -ar 16000 -ac 1"),
        (riff(b"12345678", 17, 4), "the WAV format 17 with", "ffmpeg"),
        (riff(b"12345678", 1, 64), "the WAV format 1 with 64 bits", "ffmpeg"),
        (riff(b"1", 1, 16)[:40], "is damaged", "again"),
        (riff(b"12", 1, 16).replace(struct.pack("<I", RATE_HZ), b"\1\0\0\0"), "sampling rate of 1 Hz", "again"),
        (riff(b"", 1, 16), "has no audio samples", "recorded"),
        (riff(bytes(60_000), 1, 16, size=96_000), "has 60,000 of 96,000 bytes", r"again.*ffmpeg -i \S*a.wav"),
        (riff(np.float32([np.nan]).tobytes(), 3, 32), "not finite", "recorded"),
        (None, "cannot be read: No such file", "path"),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path, content, says, hint):
    if content is not None:
        (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(DataError, match=says) as caught:
        samples_of(tmp_path / "a.wav", RATE_HZ)
    assert re.search(hint, caught.value.hint)


@pytest.mark.parametrize("array", [np.zeros((2, 8), np.float32), np.zeros(8, np.int16)])
def test_arrays_of_another_kind_are_refused(array):
    with pytest.raises(DataError, match="one axis of float samples"):
        samples_of(array, RATE_HZ)
