import itertools

from hypothesis import given
from hypothesis import strategies as st

from edgeopt import events
from edgeopt_gui.jobs.lines import EventLines

TOLD = [
    events.Progress("racing", done=1, total=9),
    events.Metric("latency_ms", 0.5, time_s=1.0),
    events.Standing("cleaned", "racing", speedup=2.0),
    events.Result("probe", {"cpu": "ü"}),
]
STREAM = b"".join(events.encode(event).encode() + b"\n" for event in TOLD)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted))
def test_events_arrive_whole_however_the_pipe_cuts_them(cuts):
    lines = EventLines()
    edges = [0, *cuts, len(STREAM)]
    heard = [event for a, b in itertools.pairwise(edges) for event in lines.feed(STREAM[a:b])]
    assert heard == TOLD


def test_what_is_no_event_is_skipped():
    noise = b'\nwarning: something\n{"event": "of a later version"}\n\xff\xfe\n[1, 2\n'
    assert list(EventLines().feed(noise + STREAM)) == TOLD
