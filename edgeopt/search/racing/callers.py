"""What a search for throughput may turn beside runtime options: callers at once, and samples a run."""

from collections.abc import Iterable

import msgspec

from edgeopt.backends import option_kinds
from edgeopt.measure.messages import ONE, Calls
from edgeopt.search.outcome import Candidate

LARGEST_BATCH = 32
# Of the baseline: what batches gain shows by then, and runs of a second would take up the time of the search.
_TRIED_BATCH, _TRIED_MS = 8, 100.0
_OF_STREAMS = ("performance_hint", "streams")


class Room(msgspec.Struct, frozen=True):
    """How many there may be of each, in rising order; both begin with 1."""

    callers: tuple[int, ...]
    batches: tuple[int, ...] = (1,)

    @property
    def cores(self) -> int:
        return self.callers[-1]


def room_for(cores: int, batches: bool) -> Room:
    """Powers of two; of callers as many as there are cores, as more would only queue up."""
    callers = {1, cores, *_powers(cores)}
    return Room(tuple(sorted(callers)), tuple(_powers(LARGEST_BATCH)) if batches else (1,))


def _powers(most: int) -> Iterable[int]:
    return (2**k for k in range(most.bit_length()) if 2**k <= most)


def called(candidate: Candidate, calls: Calls, room: Room) -> Candidate:
    """The same candidate with this number of callers, and the threads and streams they leave to each."""
    known = option_kinds(candidate.backend)
    options = dict(candidate.options)
    if "streams" in known:
        options = {name: value for name, value in options.items() if name not in _OF_STREAMS}
        if calls.callers > 1:
            options |= {"performance_hint": "throughput", "streams": calls.callers}
    elif "threads" in known and calls.callers > 1:
        # Each caller works itself, beside the threads that all of them share.
        options["threads"] = room.cores - calls.callers + 1
    elif "threads" in known and candidate.calls.callers > 1:
        options.pop("threads", None)
    shapes = options.get("shapes")
    if isinstance(shapes, dict):
        options["shapes"] = {name: [calls.batch, *sizes[1:]] for name, sizes in shapes.items()}
    return msgspec.structs.replace(candidate, options=options, calls=calls)


def at_first(candidate: Candidate, room: Room | None) -> Candidate:
    """A caller for each core, which gives most in most cases; as it is where nothing is asked of throughput."""
    return candidate if room is None else called(candidate, Calls(room.cores), room)


def other_callers(candidate: Candidate, room: Room) -> list[Candidate]:
    batch = candidate.calls.batch
    others = [count for count in reversed(room.callers) if count != candidate.calls.callers]
    return [called(candidate, Calls(count, batch), room) for count in others]


def next_batches(candidate: Candidate, room: Room) -> list[Candidate]:
    """Twice as many samples a run, and half as many."""
    place = room.batches.index(candidate.calls.batch)
    sizes = (*room.batches[place + 1 : place + 2], *room.batches[max(0, place - 1) : place])
    return [called(candidate, Calls(candidate.calls.callers, size), room) for size in sizes]


def to_try_on(room: Room, run_ms: float) -> list[Calls]:
    """The ways to call plain ONNX Runtime; the best is the baseline. `run_ms` is the time of one sample alone."""
    several = room.batches[1:]
    quick = [size for size in several if size <= _TRIED_BATCH and size * run_ms <= _TRIED_MS]
    batches = (1, *(quick or several[:1])[-1:])
    return [Calls(callers, batch) for callers in dict.fromkeys((1, room.cores)) for batch in batches] or [ONE]
