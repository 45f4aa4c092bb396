"""The order of candidates that nobody has measured: by predicted time, else as the profile's ladder has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgeopt.commands.predict.latency import Latency
from edgeopt.commands.predict.variants import Made
from edgeopt.quant.measured.planning.entry import WEIGHTS_ALONE


@dataclass(frozen=True, slots=True)
class Place:
    """One candidate in the order; `latency` is a sentence's end where it cannot be told."""

    made: Made
    latency: Latency | str

    @property
    def predicted_ms(self) -> float | None:
        return self.latency.predicted_ms if isinstance(self.latency, Latency) else None


@dataclass(frozen=True, slots=True)
class Ranked:
    places: tuple[Place, ...]
    """The best first; those that are out come last."""
    by_time: bool
    """By predicted times; otherwise by the ladder, because not all of them could be predicted."""

    def in_line(self) -> list[Place]:
        return [place for place in self.places if place.made.is_alive]


def ranked(
    made: Sequence[Made], backends: Sequence[str], ladder: Sequence[str], latencies: Mapping[int, Latency | str]
) -> Ranked:
    places = [Place(one, latencies[place]) for place, one in enumerate(made)]
    alive = [place for place in places if place.made.is_alive]
    out = [place for place in places if not place.made.is_alive]
    by_time = bool(alive) and all(place.predicted_ms is not None for place in alive)

    def preference(place: Place) -> tuple[float, ...]:
        candidate = place.made.candidate
        time_ms = place.predicted_ms if by_time else None
        on_ladder = _on_ladder(candidate.variant, bool(place.made.doubt), ladder)
        return (time_ms or 0.0, backends.index(candidate.backend), *on_ladder)

    return Ranked((*sorted(alive, key=preference), *out), by_time)


def _on_ladder(variant: str, doubtful: bool, ladder: Sequence[str]) -> tuple[int, int]:
    """Fewer bits in the order of the ladder, then exact rewrites, what may gain nothing, and last the source."""
    place = ladder.index(variant) if variant in ladder else len(ladder)
    if variant in WEIGHTS_ALONE or doubtful:
        return 2, place
    return {"cleaned": (1, 0), "source": (3, 0)}.get(variant, (0, place))
