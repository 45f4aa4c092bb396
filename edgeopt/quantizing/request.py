"""From what a user writes to a request; what needs neither model nor data to be seen is said here."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from edgeopt.backends.options import Value
from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.places import place_named
from edgeopt.errors import UsageError
from edgeopt.judging.goals import goal_from
from edgeopt.nearest import nearest
from edgeopt.quantizing.records import METHODS, Augment, QuantizeRequest

_LEAST_S = 5.0


def request_from(
    model: Path,
    out: Path | None = None,
    *,
    floor: str | None = None,
    metric: str | None = None,
    max_drop: str | None = None,
    augment: str | None = None,
    options: Mapping[str, object] | None = None,
    **rest: object,
) -> QuantizeRequest:
    """`rest` goes into the request as it is; UsageError for what cannot be."""
    request = QuantizeRequest(
        model,
        out,
        goal=goal_from(metric, floor, max_drop),
        goal_given=any(text is not None for text in (floor, metric, max_drop)),
        augment=read_augment(augment) if augment else None,
        options=_plain(options or {}),
    )
    request = msgspec.structs.replace(request, **rest)
    _check(request)
    return request


def read_augment(text: str) -> Augment:
    """`noise=0.01`, `scaling=0.1`, or both with a comma between."""
    how = "Write noise=0.01 or scaling=0.1, or both with a comma between."
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (each.strip() for each in part.partition("="))
        if name not in Augment.__struct_fields__:
            raise UsageError(f"There is no augmentation '{name}'.", how)
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = -1.0
        if not 0 <= found[name] < 1:
            raise UsageError(f"'{part.strip()}' is no augmentation: its number must be a share from 0 to 1.", how)
    return Augment(**found)


def _plain(options: Mapping[str, object]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in options.items():
        if not isinstance(value, str | int | float | bool):
            raise UsageError(f"The option '{name}' must be a single value.", "To fix shapes, give --shape.")
        found[name] = value
    return found


def _check(request: QuantizeRequest) -> None:
    if request.single_file and (request.out is None or request.out.suffix != SUFFIX):
        raise UsageError(
            "--single-file is for bundles, and none is to be written.",
            f"Add -o NAME{SUFFIX}, or leave --single-file out.",
        )
    if request.method not in METHODS:
        raise UsageError(f"There is no method '{request.method}'.", nearest(request.method, METHODS))
    place = place_named(request.options) if request.out is not None and request.out.suffix == SUFFIX else None
    if place is not None:
        raise UsageError(
            f"A bundle does not take the option '{place}': it names a place on this device.",
            "Leave it out; give it where a plain model is run or measured.",
        )
    if request.options and not request.backend:
        raise UsageError(
            "The options belong to a backend, and none is named.",
            "Add --backend NAME; `edgeopt backends` lists them with their options.",
        )
    if request.calibration:
        _check_calibration(request.calibration)
    if request.time_limit_s is not None and not request.time_limit_s >= _LEAST_S:
        raise UsageError(f"In less than {_LEAST_S:g} s no model is quantized.", "Give --time-limit more.")
    for target in request.check_targets:
        _check_target(target)


def _check_calibration(name: str) -> None:
    from edgeopt.quant.ranges import METHODS as CALIBRATIONS

    known = tuple(method.name for method in CALIBRATIONS)
    if name not in known:
        raise UsageError(f"There is no method of calibration '{name}'.", nearest(name, known))


def _check_target(name: str) -> None:
    from edgeopt.profiles.load import shipped_profiles

    known = tuple(profile.name for profile in shipped_profiles())
    if name not in known and not Path(name).is_file():
        raise UsageError(f"There is no target '{name}'.", nearest(name, known))
