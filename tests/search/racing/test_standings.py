from edgeopt.search.racing.entrants import Ticker, final, racing


def test_an_interval_of_few_rounds_is_not_told(track):
    entry = track.enter("ab", latency_ms=2)
    track.baseline.slices_ms, entry.contender.slices_ms = [4.0, 4.0], [2.0, 2.0]
    early = racing(entry, track.baseline)
    assert (early.speedup, early.speedup_low, early.speedup_high) == (2.0, None, None)
    track.baseline.slices_ms, entry.contender.slices_ms = [4.0] * 4, [2.0] * 4
    assert racing(entry, track.baseline).speedup_low == 2.0
    entry.measured(track.baseline)
    entry.leave("lost", "a reason")
    assert (final(entry).status, final(entry).reason, final(entry).speedup) == ("lost", "a reason", 2.0)


def test_it_is_told_seldom_enough_not_to_lengthen_the_race(track):
    entry, said = track.enter("ab"), []
    ticker = Ticker(said.append)
    for _ in range(50):
        ticker.tell(track.baseline, [entry])
    assert len(said) <= 1
