"""Which stretch of time a chart shows: a length that follows the newest sample, or a place to stay at."""

from dataclasses import dataclass, replace

_SHORTEST_S = 1.0
_LONGEST_S = 7 * 24 * 3600.0
_SHORTEST_WHOLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Span:
    length_s: float | None
    """None: all that there is."""
    end_s: float | None = None
    """None: the newest sample."""

    @property
    def follows(self) -> bool:
        return self.end_s is None


def shown(span: Span, first_s: float, last_s: float) -> tuple[float, float]:
    """The two ends, given the times of the oldest and the newest sample."""
    end = last_s if span.end_s is None else span.end_s
    length = max(end - first_s, _SHORTEST_WHOLE_S) if span.length_s is None else span.length_s
    return end - length, end


def moved(span: Span, share: float, first_s: float, last_s: float) -> Span:
    """Goes `share` of its length forward (or back); at the newest sample it follows again."""
    begin, end = shown(span, first_s, last_s)
    length = end - begin
    end += share * length
    return Span(length) if end >= last_s else Span(length, max(end, first_s))


def zoomed(span: Span, factor: float, centre_s: float | None, first_s: float, last_s: float) -> Span:
    """`factor` < 1 looks closer, at `centre_s`; while it follows, and at None, the end stays where it is."""
    begin, end = shown(span, first_s, last_s)
    length = min(max((end - begin) * factor, _SHORTEST_S), _LONGEST_S)
    if span.follows or centre_s is None:
        return replace(span, length_s=length)
    end = centre_s + (end - centre_s) * length / (end - begin)
    return Span(length) if end >= last_s else Span(length, end)


def stopped(span: Span, first_s: float, last_s: float) -> Span:
    """The same stretch, and it stays there."""
    begin, end = shown(span, first_s, last_s)
    return Span(end - begin, end)
