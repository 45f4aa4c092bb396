"""The samples of one curve: a ring that is written twice, under a pyramid of extremes kept as values arrive.

Each sample is written at two places, one capacity apart, so that any stretch of the history is one slice and
nothing is copied. Above the samples lie blocks of 4, 16, 64 and 256 of them with their lowest and highest value; a
long stretch is drawn from the blocks, in time that depends on the pixels and not on the samples.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_FACTOR = 4
_BLOCKS = (4, 16, 64, 256)
_LARGEST_BLOCK = _BLOCKS[-1]
# Fewest blocks in a column, so that its edges are exact to a quarter of its width.
_BLOCKS_A_COLUMN = 4
# Significant digits of a column's width: with more, rounding of times makes a curve tremble.
_WIDTH_DIGITS = 6

CAPACITY = 640 * _LARGEST_BLOCK
"""163,840 samples: four and a half hours at ten a second."""

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Curve(NamedTuple):
    """Points to draw; `joined` is 1 for each point that is joined to the next, None if all are."""

    times: Floats
    values: Floats
    joined: NDArray[np.int32] | None = None


class _Level:
    """The extremes of blocks of one size."""

    def __init__(self, block: int, capacity: int) -> None:
        self.block = block
        self.length = capacity // block
        self.lows = np.empty(2 * self.length)
        self.highs = np.empty(2 * self.length)

    def put(self, place: int, low: float, high: float) -> None:
        for at in (place, place + self.length):
            self.lows[at] = low
            self.highs[at] = high


class Ring:
    """Times must not step back. Takes 43 bytes a sample: 6.7 MiB when full, touched as it fills."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = -(-capacity // _LARGEST_BLOCK) * _LARGEST_BLOCK
        self._times = np.empty(2 * self.capacity)
        self._values = np.empty(2 * self.capacity)
        self._levels = tuple(_Level(block, self.capacity) for block in _BLOCKS)
        self._count = 0
        self._gaps: list[int] = []

    def __len__(self) -> int:
        return min(self._count, self.capacity)

    @property
    def count(self) -> int:
        """The number of samples added since the last `clear`."""
        return self._count

    @property
    def nbytes(self) -> int:
        levels = sum(level.lows.nbytes + level.highs.nbytes for level in self._levels)
        return self._times.nbytes + self._values.nbytes + levels

    @property
    def last(self) -> float | None:
        """The newest value; None if there is none."""
        return float(self._values[(self._count - 1) % self.capacity]) if self._count else None

    def append(self, time_s: float, value: float, after_gap: bool = False) -> None:
        """Adds a sample; `after_gap` draws no line from the sample before, as nothing is known in between."""
        at = self._count % self.capacity
        self._times[at] = self._times[at + self.capacity] = time_s
        self._values[at] = self._values[at + self.capacity] = value
        if after_gap and self._count:
            self._gaps = [gap for gap in self._gaps if gap > self._oldest]
            self._gaps.append(self._count)
        self._count += 1
        if self._count % _FACTOR == 0:
            self._fill_blocks()

    def clear(self) -> None:
        self._count = 0
        self._gaps.clear()

    def all(self) -> tuple[Floats, Floats]:
        """Times and values, oldest first; views that the next samples change."""
        part = self._slice(self._oldest, self._count)
        return self._times[part], self._values[part]

    def at(self, time_s: float) -> tuple[float, float] | None:
        """Returns the sample nearest to a time; None if there is none."""
        times, values = self.all()
        if not len(times):
            return None
        right = min(int(np.searchsorted(times, time_s)), len(times) - 1)
        nearest = right - 1 if right and time_s - times[right - 1] < times[right] - time_s else right
        return float(times[nearest]), float(values[nearest])

    def window(self, begin_s: float, end_s: float, pixels: int) -> Curve:
        """Returns the curve between two times, with at most two points a pixel, including all peaks and dips.

        One sample (or one column) on either side comes along, so that the lines reach the edges. Columns are one
        pixel wide and lie at fixed times, so that a curve that moves on keeps its shape.
        """
        times, _ = self.all()
        first = self._oldest + max(0, int(np.searchsorted(times, begin_s, "left")) - 1)
        last = self._oldest + min(len(times), int(np.searchsorted(times, end_s, "right")) + 1)
        if last - first <= 2 * max(pixels, 1):
            part = self._slice(first, last)
            return Curve(self._times[part], self._values[part], self._joined(first, last))
        return self._columns(first, last, float(f"{(end_s - begin_s) / pixels:.{_WIDTH_DIGITS}g}"), pixels)

    @property
    def _oldest(self) -> int:
        return max(0, self._count - self.capacity)

    def _slice(self, first: int, last: int) -> slice:
        """Returns the contiguous slice of the samples with these numbers, counted from the last `clear`."""
        at = first % self.capacity
        return slice(at, at + last - first)

    def _fill_blocks(self) -> None:
        lows: Floats = self._values
        highs: Floats = self._values
        length = self.capacity
        for level in self._levels:
            if self._count % level.block:
                return
            at = (self._count // (level.block // _FACTOR) - _FACTOR) % length
            place = (self._count // level.block - 1) % level.length
            level.put(place, float(lows[at : at + _FACTOR].min()), float(highs[at : at + _FACTOR].max()))
            lows, highs, length = level.lows, level.highs, level.length

    def _columns(self, first: int, last: int, width_s: float, pixels: int) -> Curve:
        starts, times, lows, highs = self._blocks(first, last, _BLOCKS_A_COLUMN * pixels)
        of_block = np.floor(times / width_s)
        cuts = np.concatenate(([0], np.flatnonzero(of_block[1:] != of_block[:-1]) + 1))
        low, high = np.minimum.reduceat(lows, cuts), np.maximum.reduceat(highs, cuts)
        # Alternates low-high and high-low, so that the lines between columns are short, which halves the painting.
        down = of_block[cuts] % 2 == 1
        values = np.empty(2 * len(cuts))
        values[0::2] = np.where(down, high, low)
        values[1::2] = np.where(down, low, high)
        times = np.repeat((of_block[cuts] + 0.5) * width_s, 2)
        return Curve(times, values, self._joined_columns(first, last, starts[cuts], of_block[cuts]))

    def _blocks(self, first: int, last: int, maximum: int) -> tuple[Numbers, Floats, Floats, Floats]:
        """Returns the number and time of the first sample, and the lowest and highest value, of each block.

        Blocks of one sample where larger ones would be too coarse.
        """
        part = self._slice(first, last)
        times, values = self._times[part], self._values[part]
        fine = [each for each in self._levels if (last - first) // each.block >= maximum]
        if not fine:
            return np.arange(first, last), times, values, values
        level = fine[-1]
        begin = -(-first // level.block) * level.block
        end = last // level.block * level.block
        at = (begin // level.block) % level.length
        whole = slice(at, at + (end - begin) // level.block)
        starts = np.arange(begin, end, level.block)
        at_starts = times[begin - first : end - first : level.block]
        lows, highs = level.lows[whole], level.highs[whole]
        if first < begin:
            head = values[: begin - first]
            starts, at_starts = np.concatenate(([first], starts)), np.concatenate((times[:1], at_starts))
            lows, highs = np.concatenate(([head.min()], lows)), np.concatenate(([head.max()], highs))
        if end < last:
            tail = values[end - first :]
            starts = np.concatenate((starts, [end]))
            at_starts = np.concatenate((at_starts, times[end - first : end - first + 1]))
            lows, highs = np.concatenate((lows, [tail.min()])), np.concatenate((highs, [tail.max()]))
        return starts, at_starts, lows, highs

    def _joined(self, first: int, last: int) -> NDArray[np.int32] | None:
        gaps = [gap for gap in self._gaps if first < gap < last]
        if not gaps:
            return None
        joined = np.ones(last - first, np.int32)
        joined[np.array(gaps) - first - 1] = 0
        return joined

    def _joined_columns(
        self, first: int, last: int, starts: Numbers, of_column: Floats
    ) -> NDArray[np.int32] | None:
        gaps = [gap for gap in self._gaps if first < gap < last]
        if not gaps:
            return None
        joined = np.ones(2 * len(starts), np.int32)
        for gap in gaps:
            column = int(np.searchsorted(starts, gap, "right")) - 1
            if starts[column] == gap:
                joined[2 * column - 1] = 0
            elif column + 1 < len(starts) and of_column[column + 1] - of_column[column] > 1:
                joined[2 * column + 1] = (
                    0  # the gap lies inside a block; what is shorter than a column is not seen
                )
        return joined
