"""What a plan for a device that was not there says, for a report: nothing in it was measured on that device."""

from edgeopt.commands.predict.records import Ahead, Planned, Status
from edgeopt.commands.report.facts import Accuracy, NotMade, Point
from edgeopt.commands.report.front import with_front

_STATUS: dict[Status, str] = {"chosen": "winner", "behind": "lost", "baseline": "lost"}
_LEFT: Status = "not planned"


def points_of(found: Ahead) -> tuple[Point, ...]:
    """Every candidate that was looked at, with the time that is predicted for it where one is."""
    return with_front([_point(each) for each in found.candidates if each.status != _LEFT])


def not_made_of(found: Ahead) -> tuple[NotMade, ...]:
    """What only the device can tell."""
    return tuple(NotMade(p.candidate.variant, "", p.reason) for p in found.candidates if p.status == _LEFT)


def accuracy_of(found: Ahead) -> Accuracy:
    """It is real: by runs elsewhere, which round alike."""
    return Accuracy(found.accuracy_db, found.floor_db, "", found.samples, found.set_aside)


def _point(each: Planned) -> Point:
    return Point(
        name=each.candidate.name,
        variant=each.candidate.variant,
        backend=each.candidate.backend,
        status=_STATUS.get(each.status, each.status),
        reason=each.reason,
        time_ms=each.latency.predicted_ms if each.latency else None,
        snr_db=each.accuracy_db,
        low_db=each.accuracy_low_db,
        size_bytes=each.size_bytes,
        basis="expected",
    )
