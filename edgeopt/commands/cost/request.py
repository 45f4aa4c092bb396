"""Request of `edgeopt cost`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.bundle.request import PicturesFile
from edgeopt.errors import UsageError, flag_of
from edgeopt.options import DAY_S, argument, option


class CostRequest(msgspec.Struct, frozen=True):
    subjects: Annotated[
        tuple[str, ...],
        argument("Measurements, one per device.", metavar="[NAME=]BUNDLE|BENCH.json..."),
    ] = ()
    price_per_hour: Annotated[
        tuple[str, ...],
        option("Price of a device per hour; one for all, or one each.", metavar="[NAME=]X"),
    ] = ()
    currency: Annotated[str, option("Currency of all prices (ISO 4217).")] = "USD"
    load: Annotated[str | None, option("Amount of work: 5000/s, 300k/min or 20M/day.", metavar="N/s")] = None
    devices: Annotated[
        int | None,
        option("Number of devices that do the work now with the baseline; replaces --load.", metavar="N"),
    ] = None
    utilization: Annotated[
        float,
        option("Planned utilization of a device, in percent; the rest is reserve for peaks.", metavar="PERCENT"),
    ] = 70.0
    hours_per_day: Annotated[float, option("Hours per day that a device is used and paid for.", metavar="H")] = (
        24.0
    )
    batch: Annotated[int, option("Inferences per run of the model.", metavar="N")] = 1
    engineering_hours: Annotated[
        float | None, option("Hours of work to make the change; needs --rate.", metavar="H")
    ] = None
    rate: Annotated[float | None, option("Cost of an hour of that work.", metavar="X")] = None
    pay_back_months: Annotated[float, option("Longest time to pay back the work, in months.", metavar="M")] = 12.0
    against: Annotated[
        str | None,
        option("Baseline: a side of the saved run, or a side to measure with --measure.", metavar="OTHER"),
    ] = None
    measure: Annotated[bool, option("Measure now on this device, as `edgeopt bench` does.")] = False
    data: Annotated[Path | None, option("Samples for --measure.")] = None
    pre: PicturesFile = None
    concurrency: Annotated[
        str | None, option("Numbers of concurrent threads to count runs for, with --measure.", metavar="1,2,4")
    ] = None
    processes: Annotated[
        str | None, option("Numbers of concurrent sessions to count runs for, with --measure.", metavar="1,2")
    ] = None
    time_limit_s: Annotated[
        float | None, option("Time limit of --measure, in seconds.", minimum=1, maximum=DAY_S)
    ] = None


def check(request: CostRequest) -> None:
    """Raises UsageError for what would change nothing."""
    for name in ("data", "pre", "concurrency", "processes", "time_limit_s"):
        if getattr(request, name) is not None and not request.measure:
            flag = flag_of(name)
            raise UsageError(f"{flag} needs --measure.", f"Add --measure, or leave {flag} out.")
