"""Buffers for large results, which are used again after the caller has released them.

The C library may return memory of this size to the system when it is freed; each new array then costs a page fault
for every 4 KiB. ONNX Runtime needs no such buffers: its arena keeps the memory of its results.
"""

from collections import deque
from math import prod
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import Array

if TYPE_CHECKING:
    import numpy as np
    from openvino import Tensor

_ALIGNMENT_BYTES = 64


class Buffer:
    """Memory for results of one shape and type."""

    __slots__ = ("_tensor", "dtype", "memory", "seen_by_numpy", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> None:
        import numpy as np

        size = prod(shape) * dtype.itemsize
        room = np.empty(size + _ALIGNMENT_BYTES - 1, np.uint8)
        begin = -room.ctypes.data % _ALIGNMENT_BYTES
        self.shape = shape
        self.dtype = dtype
        self.memory = room[begin : begin + size].view(dtype).reshape(shape)
        self.seen_by_numpy = self.memory.__array_interface__
        self._tensor: Tensor | None = None

    @property
    def tensor(self) -> "Tensor":
        """A tensor on the buffer's memory, which it does not keep alive."""
        if self._tensor is None:
            from openvino import Tensor

            self._tensor = Tensor(self.memory, True)
        return self._tensor


class ResultBuffers:
    """Buffers for later results; needs no lock, because a deque gives each buffer to one thread only."""

    __slots__ = ("_idle",)

    def __init__(self, maximum: int) -> None:
        """Keeps at most `maximum` idle buffers; buffers in use are not counted."""
        self._idle: deque[Buffer] = deque(maxlen=maximum)

    def take(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Buffer:
        """Returns a buffer that nothing else uses; it is freed unless it is lent or put back."""
        idle = self._idle
        for _ in range(len(idle)):
            try:
                buffer = idle.pop()
            except IndexError:  # other threads have taken the rest
                break
            if buffer.shape == shape and buffer.dtype == dtype:
                return buffer
            idle.appendleft(buffer)
        return Buffer(shape, dtype)

    def lend(self, buffer: Buffer) -> Array:
        """Returns the buffer's memory as an array; the buffer is idle again once the last view is freed."""
        import numpy as np

        return np.asarray(_Loan(self, buffer))

    def copy(self, array: Array) -> Array:
        buffer = self.take(array.shape, array.dtype)
        buffer.memory[...] = array
        return self.lend(buffer)

    def put_back(self, buffer: Buffer) -> None:
        """Makes a buffer idle; frees the one that was idle for longest if there are too many."""
        self._idle.append(buffer)

    def close(self) -> None:
        """Frees the idle buffers now, and the others as soon as the caller releases them."""
        self._idle = deque(maxlen=0)


class _Loan:
    """The base of a result in numpy, and so of every view, slice and memoryview of it.

    It is freed, in any thread, when nothing can reach the memory any more; the buffer is then idle again.
    """

    __slots__ = ("__array_interface__", "_buffer", "_buffers")

    def __init__(self, buffers: ResultBuffers, buffer: Buffer) -> None:
        self._buffers = buffers
        self._buffer = buffer
        self.__array_interface__ = buffer.seen_by_numpy

    def __del__(self) -> None:
        self._buffers.put_back(self._buffer)
