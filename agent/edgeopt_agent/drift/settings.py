"""The table `[drift]` of the configuration; where it is missing, nothing is watched."""

import msgspec


class DriftSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reference_requests: int = 1000
    """The first requests of a release, with which later ones are compared."""
    window_requests: int = 200
    """Number of the last requests that are compared with the first ones."""
    false_alarm_requests: int = 10_000_000
    """Number of requests per false alarm, at least, if requests come independently of each other."""
    every_s: float = 0.0
    """The least time between two requests that are looked at."""
    golden_s: float = 600.0
    """Interval between two runs of the golden inputs on the serving release; 0: never."""


_MIN = {"reference_requests": 50, "window_requests": 50, "false_alarm_requests": 100}
_MAX = {"reference_requests": 10_000, "window_requests": 10_000, "false_alarm_requests": 10**12}
_MAX_S = 30 * 86_400.0


def wrong_drift(settings: DriftSettings) -> str:
    """Returns what is wrong with the table; empty if it can be used."""
    for name, value in msgspec.structs.asdict(settings).items():
        minimum, maximum = _MIN.get(name, 0), _MAX.get(name, _MAX_S)
        if not minimum <= value <= maximum:
            return f"'drift.{name}' is {value}; it must be from {minimum} to {maximum:.15g}."
    return ""
