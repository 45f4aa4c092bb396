"""Audio as samples: WAV files, channels mixed to one, other sampling rates converted."""

import math
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edgeopt.backends.base import Array
from edgeopt.errors import DataError
from edgeopt.platform.command_line import quote_word

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_READABLE = (*((_PCM, bits) for bits in (8, 16, 24, 32)), (_FLOAT, 32), (_FLOAT, 64))
_RATES_HZ = range(1000, 768_001)
_WRONG_BYTES = 4096
"""Some programs give the size of the whole file as that of its audio, which is slightly too large."""
_UNKNOWN_BYTES = 0x7F00_0000
"""Sizes from here on stand for an unknown one: programs that write to a pipe use several."""
_ZERO_CROSSINGS = 32
"""Zero crossings of the filter on each side: its stop band begins at half of the lower rate."""
_CUTOFF = 0.9325
"""The middle of the filter's slope, relative to half of the lower rate."""
_KAISER_BETA = 6.76
"""Attenuates the stop band by 70 dB."""


def samples_of(audio: str | Path | bytes | memoryview | Array, rate_hz: int) -> Array:
    """Returns a file, its content, or an array of the rate `rate_hz`, as one channel of float32 samples."""
    if isinstance(audio, str | Path | bytes | memoryview):
        path = Path(audio) if isinstance(audio, str | Path) else Path("AUDIO")
        samples, found_hz = read_wav(path, _content(path) if isinstance(audio, str | Path) else audio)
        samples = resample(samples, found_hz, rate_hz)
        where = f"'{path.name}'"
    else:
        samples, where = np.asarray(audio), "The array"
        if samples.ndim != 1 or samples.dtype.kind != "f":
            raise DataError(
                f"Audio is one axis of float samples, not {samples.ndim} of {samples.dtype}.",
                f"Give samples between -1 and 1 at {rate_hz} Hz, such as pcm16.astype('float32') / 32768.",
            )
    if not samples.size:
        raise DataError(f"{where} has no audio samples.", "Check how it was recorded.")
    if not np.isfinite(samples).all():
        raise DataError(f"{where} has samples that are not finite.", "Check how it was recorded.")
    return samples.astype(np.float32)


def read_wav(path: Path, content: bytes | memoryview) -> tuple[Array, int]:
    """Returns the samples in the content of a WAV file, channels averaged, and their rate in Hz."""
    layout, data = _chunks(path, content)
    kind, channels, rate_hz, bits = layout
    if (kind, bits) not in _READABLE:
        raise _unsupported(path, f"has the WAV format {kind} with {bits} bits")
    if rate_hz not in _RATES_HZ:
        raise DataError(
            f"The WAV file '{path.name}' has a sampling rate of {rate_hz} Hz, which no audio has.",
            "Record or convert it again.",
        )
    width = bits // 8
    whole = data[: len(data) // (channels * width) * channels * width]
    samples: Array = _decoded(whole, kind, width).reshape(-1, channels).mean(axis=1)
    return samples, rate_hz


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"The audio file '{path}' cannot be read: {error.strerror}.", "Check the path.") from None


def _chunks(path: Path, content: bytes | memoryview) -> tuple[tuple[int, int, int, int], bytes | memoryview]:
    """Returns the format, the number of channels, the rate and the bits of a sample, and the data."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise _unsupported(path, "is not a WAV file")
    layout, place = None, 12
    while place + 8 <= len(content):
        name, size = content[place : place + 4], _number(content[place + 4 : place + 8])
        chunk = content[place + 8 : place + 8 + size]
        if name == b"fmt " and len(chunk) >= 16:
            kind, channels, rate_hz = (_number(chunk[a:b]) for a, b in ((0, 2), (2, 4), (4, 8)))
            kind = _number(chunk[24:26]) if kind == _EXTENSIBLE else kind
            layout = kind, channels, rate_hz, _number(chunk[14:16])
        elif name == b"data" and layout is not None and all(layout[1:3]):
            if len(chunk) + _WRONG_BYTES < size < _UNKNOWN_BYTES:
                raise DataError(
                    f"The WAV file '{path.name}' is cut off: it has {len(chunk):,} of {size:,} bytes of audio.",
                    f"Copy or record it again, or take what is there: {_conversion(path)}",
                )
            return layout, chunk
        place += 8 + size + size % 2
    raise DataError(f"The WAV file '{path.name}' is damaged: it has no audio data.", "Record or convert it again.")


def _number(content: bytes | memoryview) -> int:
    return int.from_bytes(content, "little")


def _decoded(data: bytes | memoryview, kind: int, width: int) -> Array:
    if kind == _FLOAT:
        return np.frombuffer(data, f"<f{width}").astype(np.float32)
    if width == 1:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    if width == 3:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, width = wide.tobytes(), 4
    whole: Array = np.frombuffer(data, f"<i{width}").astype(np.float32) / 2 ** (8 * width - 1)
    return whole


def _unsupported(path: Path, reason: str) -> DataError:
    return DataError(
        f"The audio file '{path.name}' {reason}; edgeopt reads PCM and float WAV files.",
        f"Convert it: {_conversion(path)}",
    )


def _conversion(path: Path) -> str:
    converted = quote_word(str(path.with_name(f"{path.stem}-16k.wav")))
    return f"ffmpeg -i {quote_word(str(path))} -ar 16000 -ac 1 -c:a pcm_s16le {converted}"


def resample(samples: Array, from_hz: int, to_hz: int) -> Array:
    """Returns samples at another rate, filtered by a windowed sinc below half of the lower rate."""
    if from_hz == to_hz or not samples.size:
        return samples
    common = math.gcd(from_hz, to_hz)
    up, down = to_hz // common, from_hz // common
    cutoff = min(1.0, up / down) * _CUTOFF
    reach = math.ceil(_ZERO_CROSSINGS * max(1.0, down / up))
    count = -(-len(samples) * up // down)
    padded = np.pad(samples.astype(np.float32), (reach, reach + down))
    windows = sliding_window_view(padded, 2 * reach + 1)
    offsets = np.arange(-reach, reach + 1)
    result = np.empty(count, np.float32)
    # Outputs that are `up` apart lie equally between two inputs, so they have the same filter.
    for phase in range(min(up, count)):
        base, rest = divmod(phase * down, up)
        times = offsets - rest / up
        inside = np.clip(1 - (times / (reach + 1)) ** 2, 0, None)
        taps = cutoff * np.sinc(cutoff * times) * np.i0(_KAISER_BETA * np.sqrt(inside)) / np.i0(_KAISER_BETA)
        outputs = len(range(phase, count, up))
        result[phase::up] = windows[base::down][:outputs] @ (taps / taps.sum()).astype(np.float32)
    return result
