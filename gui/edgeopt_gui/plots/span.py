"""The time span of a chart: a length that follows the newest sample, or a fixed end."""

from dataclasses import dataclass, replace

_SHORTEST_S = 1.0
_LONGEST_S = 7 * 24 * 3600.0
_SHORTEST_WHOLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Span:
    length_s: float | None
    """Length in seconds; None for all samples."""
    end_s: float | None = None
    """End of the span in seconds since 1970; None follows the newest sample."""

    @property
    def follows(self) -> bool:
        return self.end_s is None


def shown(span: Span, first_s: float, last_s: float) -> tuple[float, float]:
    """Returns the two ends of a span, given the times of the oldest and the newest sample.

    A span that follows begins at the oldest sample, and grows until it has its length.
    """
    if span.end_s is not None:
        length = max(span.end_s - first_s, _SHORTEST_WHOLE_S) if span.length_s is None else span.length_s
        return span.end_s - length, span.end_s
    if span.length_s is not None and last_s - first_s >= span.length_s:
        return last_s - span.length_s, last_s
    shortest = min(span.length_s or _SHORTEST_WHOLE_S, _SHORTEST_WHOLE_S)
    return first_s, max(last_s, first_s + shortest)


def moved(span: Span, share: float, first_s: float, last_s: float) -> Span:
    """Goes `share` of its length forward (or back); at the newest sample it follows again."""
    begin, end = shown(span, first_s, last_s)
    length = span.length_s or end - begin
    end += share * (end - begin)
    return Span(length) if end >= last_s else Span(length, max(end, first_s))


def zoomed(span: Span, factor: float, centre_s: float | None, first_s: float, last_s: float) -> Span:
    """Zooms in at `centre_s` if `factor` < 1, else out; the end stays if it follows or `centre_s` is None."""
    begin, end = shown(span, first_s, last_s)
    # A span that is still growing zooms out from its full length, not from its present one.
    whole = max(end - begin, span.length_s or 0.0) if factor > 1 else end - begin
    length = min(max(whole * factor, _SHORTEST_S), _LONGEST_S)
    if span.follows or centre_s is None:
        return replace(span, length_s=length)
    end = centre_s + (end - centre_s) * length / (end - begin)
    return Span(length) if end >= last_s else Span(length, end)


def stopped(span: Span, first_s: float, last_s: float) -> Span:
    """Returns the same span with a fixed end."""
    begin, end = shown(span, first_s, last_s)
    return Span(end - begin, end)
