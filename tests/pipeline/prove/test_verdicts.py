"""What the rows of a search say of candidates that are not delivered."""

from edgeopt import units
from edgeopt.pipeline.prove.proving import MissedFloor, UnprovenFloor


def test_verdicts_compare_with_what_is_delivered_where_the_best_of_the_race_failed(delivered, monkeypatch):
    """A table said "25 % slower" of 2.75x, against a candidate that was not delivered and not named."""

    def missed(search, means, bundle, legs):
        raise MissedFloor("22.8 dB")

    monkeypatch.setattr("edgeopt.pipeline.prove.deliver.measured", missed)
    for share, expected in ((0.75, "1.50x in the race, not measured from a written bundle"), (0.3, "")):
        outcome, (_, fallen) = delivered({"latency_ms": 0.1}, {"latency_ms": 4.0}, last_at=share)
        (row,) = [each for each in outcome.candidates if each.candidate == fallen.candidate]
        assert outcome.winner == outcome.baseline
        own = row.speedup.median
        assert row.reason == (expected or units.behind(own, outcome.winner.name))
        assert (row.of_best is None) == bool(expected)


def test_a_candidate_whose_samples_leave_its_drop_open_is_not_delivered(delivered, monkeypatch):
    reason = (
        "top-1 with labels 99.78 %, drop 0.223 points [-0.629 1.25] on 448 samples, limit 0.5 points: not shown"
    )

    def unproven(search, means, bundle, legs):
        raise UnprovenFloor(reason)

    monkeypatch.setattr("edgeopt.pipeline.prove.deliver.measured", unproven)
    outcome, (entry,) = delivered({"latency_ms": 0.1})
    assert outcome.winner == outcome.baseline
    assert (entry.status, entry.reason) == ("unproven", reason)
    (warning,) = [each for each in outcome.warnings if "not delivered" in each]
    assert warning.endswith("accept it with --accept-unproven-drop.")
