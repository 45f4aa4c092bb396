"""Times the kernels of a model in a process of its own (`python -m edgeopt.analyzing.op_times_child`)."""

from pathlib import Path

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available, Kernels
from edgeopt.bench.processes.serve import serve
from edgeopt.data import open_samples
from edgeopt.errors import EdgeoptError, said_by

OptionValue = str | int | float | bool | dict[str, list[int]]


class Wanted(msgspec.Struct, frozen=True):
    backend: str
    model_path: str
    samples_path: str
    options: dict[str, OptionValue] = {}
    custom_ops: tuple[str, ...] = ()
    runs: int = 100
    limit_s: float = 3.0


class Answer(msgspec.Struct, frozen=True):
    kernels: Kernels | None = None
    version: str = ""
    reason: str = ""
    """Why there are none."""


def main() -> None:
    """Answers requests until the parent ends."""
    serve(lambda line: msgspec.json.encode(_guarded(msgspec.json.decode(line, type=Wanted))))


def _guarded(wanted: Wanted) -> Answer:
    try:
        return _answer(wanted)
    except EdgeoptError as error:
        return Answer(reason=error.message)
    except MemoryError:
        return Answer(reason="There is not enough memory.")
    except Exception as error:  # noqa: BLE001 - the process's edge: whatever a runtime raises is a result
        return Answer(reason=f"{type(error).__name__}: {said_by(error)}")


def _answer(wanted: Wanted) -> Answer:
    backend = backend_named(wanted.backend)
    state = backend.available()
    if not isinstance(state, Available):
        return Answer(reason=state.reason)
    if backend.op_times is None:
        return Answer(version=state.version, reason="its runtime does not tell the time of single kernels")
    import numpy as np

    feeds = {name: np.array(array) for name, array in open_samples(Path(wanted.samples_path)).feeds(0).items()}
    found = backend.op_times(
        Path(wanted.model_path), wanted.options, feeds, wanted.runs, wanted.custom_ops, wanted.limit_s
    )
    return Answer(found, state.version, found.reason)


if __name__ == "__main__":
    main()
