"""How a session is called while it is measured: the number of threads and of samples a run."""

import msgspec


class Calls(msgspec.Struct, frozen=True):
    callers: int = 1
    """Threads that call the one session, each waiting for its answer before it calls again."""
    batch: int = 1
    """Samples in one run, along the first axis."""

    def __str__(self) -> str:
        several = "callers" if self.callers > 1 else "caller"
        return f"{self.callers} {several}, batch {self.batch}"


ONE = Calls()
"""One sample at a time."""
