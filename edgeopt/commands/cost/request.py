"""What `edgeopt cost` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.errors import UsageError, flag_of
from edgeopt.options import DAY_S, argument, option


class Request(msgspec.Struct, frozen=True):
    """As it was written."""

    subjects: Annotated[
        tuple[str, ...],
        argument("What was measured, a device each.", metavar="[NAME=]BUNDLE|BENCH.json..."),
    ] = ()
    price_per_hour: Annotated[
        tuple[str, ...],
        option("What a device costs in an hour; one for all, or one each.", metavar="[NAME=]X"),
    ] = ()
    currency: Annotated[str, option("The currency of all prices (ISO 4217).")] = "USD"
    load: Annotated[str | None, option("How much work there is: 5000/s, 300k/min, 20M/day.", metavar="N/s")] = None
    devices: Annotated[
        int | None, option("Instead of --load: how many do it now, with the baseline.", metavar="N")
    ] = None
    utilization: Annotated[
        float, option("How busy a device may be; the rest is reserve for peaks.", metavar="PERCENT")
    ] = 70.0
    hours_per_day: Annotated[float, option("Hours of use a day, and paid.", metavar="H")] = 24.0
    batch: Annotated[int, option("Inferences in one run of the model.", metavar="N")] = 1
    engineering_hours: Annotated[
        float | None, option("Hours of work that the change takes; with --rate.", metavar="H")
    ] = None
    rate: Annotated[float | None, option("What an hour of that work costs.", metavar="X")] = None
    pay_back_months: Annotated[
        float, option("Work that pays for itself within so many months is worth it.", metavar="M")
    ] = 12.0
    against: Annotated[
        str | None,
        option("The baseline: a side of the saved run, or what to --measure against.", metavar="OTHER"),
    ] = None
    measure: Annotated[bool, option("Measure now, on this device, like bench.")] = False
    data: Annotated[Path | None, option("With --measure: samples.")] = None
    concurrency: Annotated[
        str | None, option("With --measure: count runs of so many threads at once.", metavar="1,2,4")
    ] = None
    processes: Annotated[
        str | None, option("With --measure: count runs of so many sessions at once.", metavar="1,2")
    ] = None
    time_limit_s: Annotated[
        float | None, option("With --measure: so many seconds at most.", least=1, most=DAY_S)
    ] = None


def check(request: Request) -> None:
    """Raises UsageError for what would change nothing."""
    for name in ("data", "concurrency", "processes", "time_limit_s"):
        if getattr(request, name) is not None and not request.measure:
            flag = flag_of(name)
            raise UsageError(f"{flag} is for measuring now.", f"Add --measure, or leave {flag} out.")
