"""Thread counts in words: which cores a side may use, and how many threads run on them."""

import os
from functools import cache

from edgeopt.backends.options import MOST_THREADS
from edgeopt.commands.bench.naming import OptionValue
from edgeopt.errors import UsageError
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.hw.topology import cores_for

_MOST_A_CORE = 8
# Options that set the number of threads of a backend.
_COUNTS = ("threads", "inter_threads", "intra_op_num_threads", "compile_threads")


def chosen_cores(options: dict[str, OptionValue]) -> tuple[dict[str, OptionValue], tuple[int, ...]]:
    """The options with `threads` as a number, and the cores that the word for it stood for; none: all."""
    _refuse_crowds(options)
    word = options.get("threads")
    if not isinstance(word, str):
        return options, ()
    chosen = cores_for(word, _device())
    return {**options, "threads": chosen.threads}, chosen.cores


def _refuse_crowds(options: dict[str, OptionValue]) -> None:
    """Raises UsageError for more threads than can ever get on: a run would take minutes, for ever as it seems."""
    logical = os.cpu_count() or 1
    most = min(MOST_THREADS, _MOST_A_CORE * logical)
    for name in _COUNTS:
        count = options.get(name)
        if isinstance(count, int) and count > most:
            raise UsageError(
                f"'{name}' must be at most {most} here, {_MOST_A_CORE} for each of {logical} logical cores, "
                f"not {count}.",
                "Name cores instead: usable, physical or performance.",
            )


@cache
def _device() -> Device:
    return probe()
