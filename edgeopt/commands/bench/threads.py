"""Thread counts in words: which cores a side may use, and how many threads run on them."""

from functools import cache

from edgeopt.commands.bench.naming import OptionValue
from edgeopt.hw.cores import cores_for
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe


def chosen_cores(options: dict[str, OptionValue]) -> tuple[dict[str, OptionValue], tuple[int, ...]]:
    """The options with `threads` as a number, and the cores that the word for it stood for; none: all."""
    word = options.get("threads")
    if not isinstance(word, str):
        return options, ()
    chosen = cores_for(word, _device())
    return {**options, "threads": chosen.threads}, chosen.cores


@cache
def _device() -> Device:
    return probe()
