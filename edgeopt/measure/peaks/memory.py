"""Read and copy rates of memory, by numpy in threads, which releases Python's lock meanwhile."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import cycle
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from edgeopt.measure.peaks.tasks import Stream
from edgeopt.platform.processes import pin_thread, usable_cores

# A call must take long compared with its overhead and with the wait of threads for Python's lock. A cache is
# read in microseconds, so a call there covers a window that moves on by a line from row to row.
_BYTES_A_CALL = 32 << 20
_LINE_BYTES, _PAGE_BYTES, _HUGE_PAGE_BYTES = 64, 4096, 2 << 20
_FLOAT_BYTES = 4
_FEWEST_CALLS = 3
# numpy keeps Python's lock for fewer than 500 dot products a call, so the products are short.
_FLOATS_A_PRODUCT = 2048

Floats = NDArray[np.float32]
Call = Callable[[], object]


class StreamRunner:
    """Runner of a stream task: each thread has memory of its own, written once."""

    def __init__(self, task: Stream) -> None:
        self._calls: list[list[Call]] = [[] for _ in range(task.threads)]
        # The threads allocate: memory lies near the core that writes it first.
        _together([partial(_prepare, calls, task, number) for number, calls in enumerate(self._calls)])
        if not all(self._calls):
            raise MemoryError
        pieces = _pieces(task)
        floats = _columns(task) // pieces * _rows(task)
        self._bytes_a_call = floats * _FLOAT_BYTES * (1 if task.way == "one array" else 2)

    def rates(self, slice_ms: float) -> tuple[float, ...]:
        """Measures bytes per second of all threads together, over spans as long as one call of one thread."""
        marks = self._marks(slice_ms)
        begin, end = max(m[0] for m in marks), min(m[-1] for m in marks)
        span = max(float(np.median(np.diff(m))) for m in marks)
        if end - begin < span:  # they hardly ran at the same time
            return ()
        edges = np.linspace(begin, end, int((end - begin) / span) + 1)
        done = sum(np.interp(edges, m, np.arange(len(m)) * self._bytes_a_call) for m in marks)
        return tuple(float(rate) for rate in np.diff(done) / np.diff(edges))

    def _marks(self, slice_ms: float) -> list[NDArray[np.float64]]:
        """Returns for each thread the moments when its calls ended, after the moment when they began."""
        marks: list[list[float]] = [[] for _ in self._calls]
        start = threading.Barrier(len(marks))
        pairs = zip(self._calls, marks, strict=True)
        _together([partial(_go, calls, mine, start, slice_ms) for calls, mine in pairs])
        return [np.array(mine) for mine in marks]


def _together(works: list[Callable[[], None]]) -> None:
    """Runs each function in a thread, pinned to a core of its own if there are as many functions as cores."""
    cores = sorted(usable_cores() or ())
    # Without pinning, two threads may share a core for a whole slice while another core is idle.
    chosen = cores if len(cores) == len(works) > 1 else [None] * len(works)
    threads = [threading.Thread(target=_on_core, args=pair) for pair in zip(chosen, works, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _on_core(core: int | None, work: Callable[[], None]) -> None:
    if core is not None:
        pin_thread({core})
    work()


def _go(calls: list[Call], marks: list[float], start: threading.Barrier, slice_ms: float) -> None:
    start.wait()
    marks.append(time.perf_counter())
    until = marks[0] + slice_ms / 1e3
    for call in cycle(calls):
        call()
        marks.append(time.perf_counter())
        if marks[-1] >= until and len(marks) > _FEWEST_CALLS:
            return


def _prepare(calls: list[Call], task: Stream, thread: int) -> None:
    with suppress(MemoryError):  # the calls are missing then
        made = list(_made(task, thread))
        made[0]()
        calls += made


def _made(task: Stream, thread: int) -> Iterator[Call]:
    one, other = _windows(thread, _rows(task), _columns(task))
    if task.way == "one array":
        other = one
    for start in range(0, _columns(task), _columns(task) // _pieces(task)):
        piece = slice(start, start + _columns(task) // _pieces(task))
        if task.action == "copy":
            yield partial(np.copyto, other[:, piece], one[:, piece])
        else:
            factors = _products(one[:, piece]), _products(other[:, piece])
            yield partial(np.vecdot, *factors, out=np.zeros(factors[0].shape[:2], np.float32))


def _products(rows: Floats) -> Floats:
    """Returns a view of the rows as pieces for one dot product each."""
    count = -(-rows.shape[1] // _FLOATS_A_PRODUCT)
    length = rows.shape[1] // count
    return as_strided(rows, (len(rows), count, length), (_LINE_BYTES, length * _FLOAT_BYTES, _FLOAT_BYTES))


def _columns(task: Stream) -> int:
    """Returns the numbers in a row of one array: a multiple of whole cache lines for each piece."""
    lines = task.array_bytes // _LINE_BYTES
    # The products of a piece must cover it completely.
    a_piece = lines // _pieces(task)
    products = -(-a_piece * _LINE_BYTES // (_FLOATS_A_PRODUCT * _FLOAT_BYTES))
    return a_piece // products * products * _pieces(task) * _LINE_BYTES // _FLOAT_BYTES


def _rows(task: Stream) -> int:
    return max(1, _BYTES_A_CALL // (2 * task.array_bytes))


def _pieces(task: Stream) -> int:
    return max(1, 2 * task.array_bytes // _BYTES_A_CALL)


@cache
def _windows(thread: int, rows: int, columns: int) -> tuple[Floats, Floats]:  # noqa: ARG001 - each has its own
    """Returns two arrays with overlapping rows, half a page apart, so that writes to one do not delay reads.

    They are cached, because the first write to this much memory takes longer than the measurement.
    """
    size = rows * _LINE_BYTES + columns * _FLOAT_BYTES
    apart = -(-size // _PAGE_BYTES) * _PAGE_BYTES + _PAGE_BYTES // 2
    # Huge pages, if the system provides them (numpy asks for them from 4 MiB on): small pages have random
    # addresses, and may conflict in a cache.
    raw = np.empty(max(apart + size, 2 * _HUGE_PAGE_BYTES) + _HUGE_PAGE_BYTES, np.uint8)
    first = -raw.ctypes.data % _HUGE_PAGE_BYTES
    return _rows_of(raw[first : first + size], rows, columns), _rows_of(raw[first + apart :][:size], rows, columns)


def _rows_of(raw: NDArray[Any], rows: int, columns: int) -> Floats:
    floats: Floats = raw.view(np.float32)
    floats[:] = 1.0
    return as_strided(floats, (rows, columns), (_LINE_BYTES, _FLOAT_BYTES))
