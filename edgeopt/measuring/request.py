"""What `edgeopt bench` is asked, and which sides that names."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from edgeopt.bench.limits import Limits
from edgeopt.errors import UsageError
from edgeopt.measuring.limits import read_limits
from edgeopt.measuring.naming import Named, address, first_side, other_side, program, read_options
from edgeopt.measuring.sides import Settings

Duty = Literal["steady", "cold", "paced", "sustained"]
DUTIES: tuple[Duty, ...] = get_args(Duty)


@dataclass(frozen=True, slots=True)
class Request:
    """As it was written on the command line."""

    subject: str | None = None
    against: tuple[str, ...] = ()
    baseline_command: str | None = None
    url: str | None = None
    backend: str | None = None
    options: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    rounds: int | None = None
    time_limit_s: float | None = None
    duty: str = "steady"
    rate_per_s: float | None = None
    minutes: float | None = None
    concurrency: str | None = None
    processes: str | None = None
    sweep: str | None = None
    runs: int | None = None
    trace: Path | None = None
    save: Path | None = None
    max_slowdown: str | None = None
    min_speedup: str | None = None

    @property
    def limits(self) -> Limits:
        """Raises UsageError for what is no limit."""
        return read_limits(self.max_slowdown, self.min_speedup)


def sides_of(request: Request) -> list[Named]:
    """The first side and those that it is measured against; raises UsageError."""
    options = read_options(list(request.options))
    if request.subject is not None and request.url is not None:
        raise UsageError("Both a SUBJECT and --url name what to measure.", "Give the other one with --against.")
    if request.subject is not None:
        first = first_side(request.subject, request.backend, options)
    elif request.url is not None:
        first = first_side(address(request.url).what, request.backend, options)
    elif request.baseline_command is not None:
        if request.against:
            raise UsageError("--against needs a SUBJECT to measure.", "edgeopt bench MODEL --against OTHER")
        if request.backend is not None or options:
            raise UsageError(
                "--backend and --option are for models; a program chooses its own.", "Give those in its command."
            )
        return [program(request.baseline_command)]
    else:
        raise UsageError("Missing argument 'MODEL|BUNDLE|URL'.", "See: edgeopt bench --help")
    sides = [first, *(other_side(text, first) for text in request.against)]
    if request.baseline_command is not None:
        sides.append(program(request.baseline_command))
    return sides


def check(request: Request) -> None:
    """Raises UsageError for what cannot be asked together."""
    if request.duty not in DUTIES:
        raise UsageError(f"There is no duty '{request.duty}'.", f"The duties are: {', '.join(DUTIES)}.")
    in_turns = not (request.concurrency or request.processes) and request.duty == "steady"
    only_with = (
        ("--rate", request.rate_per_s, "--duty paced", request.duty == "paced"),
        ("--minutes", request.minutes, "--duty sustained", request.duty == "sustained"),
        ("--runs", request.runs, "--sweep", request.sweep is not None),
    )
    only_without = (
        ("--time-limit", request.time_limit_s is not None, "contests in turns and sweeps", in_turns),
        ("--load-timeout", request.settings.load_timeout_s is not None, "contests in turns and sweeps", in_turns),
        ("--rounds", request.rounds is not None, "what runs in rounds", request.duty != "sustained"),
        ("--counters", request.settings.counters, "contests in turns", in_turns and request.sweep is None),
    )
    for option, asked, what, given in only_without:
        if asked and not given:
            raise UsageError(f"{option} is for {what}, and would change nothing here.", f"Leave {option} out.")
    for option, value, needs, given in only_with:
        if value is not None and not given:
            raise UsageError(f"{option} goes with {needs} only.", f"Add {needs}, or leave {option} out.")
    if request.duty == "paced" and request.rate_per_s is None:
        raise UsageError("--duty paced needs a rate.", "Say how many runs a second: --rate 30")
    special = [
        name
        for name, asked in (
            (f"--duty {request.duty}", request.duty != "steady"),
            ("--concurrency or --processes", bool(request.concurrency or request.processes)),
            ("--sweep", request.sweep is not None),
        )
        if asked
    ]
    if len(special) > 1:
        raise UsageError(f"{special[0]} and {special[1]} do not go together.", "Measure one after the other.")
    if request.sweep is not None and (request.against or request.baseline_command):
        raise UsageError("--sweep measures one side with several values.", "Leave out --against.")
    if special and request.trace is not None:
        raise UsageError(f"--trace is for a contest in turns, not for {special[0]}.", "Leave one of them out.")


def levels(text: str | None, option: str) -> tuple[int, ...]:
    """`1,2,4` as numbers; raises UsageError."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 256 for part in parts):
        raise UsageError(f"{option} takes numbers from 1 to 256, not '{text}'.", f"Such as {option} 1,2,4")
    return tuple(sorted({int(part) for part in parts}))
