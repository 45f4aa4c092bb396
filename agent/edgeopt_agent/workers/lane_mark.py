"""The lane that a worker works on: a byte of memory shared with the agent, readable after the worker's end."""

import mmap
import os
import tempfile

NONE, SMALL, LARGE = range(3)


class LaneMark:
    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, 1)
        self._last = NONE

    def set(self, lane: int) -> None:
        self._memory[0] = lane

    def lane(self) -> int:
        return self._last if self._memory.closed else self._memory[0]

    def close(self) -> None:
        """Gives the memory and its descriptor back; the last mark stays readable."""
        self._last = self.lane()
        self._memory.close()


def new_descriptor() -> int:
    """Returns a descriptor of the shared memory, to be passed to the worker."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("lane")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, 1)
    return descriptor
