"""Events that a command emits while it works, as typed records; one JSON line each (`--json`)."""

import json
import math
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import OptionReference

SCHEMA = 1


class Progress(msgspec.Struct, frozen=True, tag_field="event", tag="progress"):
    """Progress of a command: its phase, and how much of that phase is done, if known."""

    phase: str
    message: str = ""
    done: int | None = None
    total: int | None = None
    best: str | None = None
    time_left_s: float | None = None
    subject: str = ""
    """Subject of the event, if one command reports several: `deployment 3`, or `encoder` of a speech model."""
    time_s: float | None = None
    """Time of the event, in seconds since 1970, if it matters to the reader."""
    schema: int = SCHEMA


class Metric(msgspec.Struct, frozen=True, tag_field="event", tag="metric"):
    """One measured value; the name contains the unit (`latency_ms`).

    It is finite: JSON has no other numbers, and missing measurements are described in words.
    """

    name: str
    value: float
    subject: str = ""
    time_s: float | None = None
    """Time of the measurement, in seconds since 1970."""
    schema: int = SCHEMA
    samples: tuple[float, ...] | msgspec.UnsetType = msgspec.UNSET
    """The values behind the median `value`, if they are reported; omitted otherwise."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"the metric '{self.name}' must be a finite number, not {self.value}")


class TokenFigures(msgspec.Struct, frozen=True):
    """Accuracy of a decoder's tokens against the source's, each figure with its 95 % interval on other texts."""

    kl: float
    """Mean Kullback-Leibler divergence, in nats."""
    kl_low: float
    kl_high: float
    top1: float
    """Share of positions where both have the same most likely token."""
    top1_low: float
    top1_high: float


class Standing(msgspec.Struct, frozen=True, tag_field="event", tag="standing"):
    """Status of one candidate of a search: still racing, or out, with the reason."""

    candidate: str
    status: Literal[
        "racing", "winner", "lost", "below the floor", "unproven", "over a limit", "failed", "not tried"
    ]
    reason: str = ""
    latency_ms: float | None = None
    speedup: float | None = None
    """Against the baseline, with the ends of its interval in the next two."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    accuracy_db: float | None = None
    of_best: float | None = None
    """Speed as a share of the best candidate's, if the candidate lost."""
    schema: int = SCHEMA
    tokens: TokenFigures | msgspec.UnsetType = msgspec.UNSET
    """Accuracy of the tokens, if the search judges a decoder by them; omitted otherwise."""
    subject: str | msgspec.UnsetType = msgspec.UNSET
    """`encoder` or `decoder` in the search of a speech model; omitted otherwise."""


class Log(msgspec.Struct, frozen=True, tag_field="event", tag="log"):
    """A sentence; fields beside it have its subject if programs act on it."""

    level: Literal["info", "warning"]
    message: str
    schema: int = SCHEMA
    kind: str = ""
    """`no-metric`, `agent-away`, `agent-back`, `models-changed`, or others; "": nothing acts on it."""
    subject: str = ""
    """The metric that is not told, or the model that was added or removed."""
    reason: str = ""
    """Reason, without a full stop."""


class Update(msgspec.Struct, frozen=True, tag_field="event", tag="update"):
    """Changes since the last update of a command that runs until it is stopped: `fleet devices --follow`."""

    kind: str
    data: dict[str, Any]
    schema: int = SCHEMA


class Result(msgspec.Struct, frozen=True, tag_field="event", tag="result"):
    """The last line of a command that succeeded; a number in its data that is not finite arrives as null."""

    kind: str
    data: dict[str, Any]
    schema: int = SCHEMA


class Error(msgspec.Struct, frozen=True, tag_field="event", tag="error"):
    """The last line of a command that failed."""

    code: str
    message: str
    hint: str = ""
    schema: int = SCHEMA
    named: tuple[OptionReference, ...] = ()
    """The options that the two sentences name, for those who call them otherwise."""


Event = Progress | Metric | Standing | Log | Update | Result | Error
Emit = Callable[[Event], None]

# Readers ignore unknown keys, so that fleets of mixed versions keep understanding each other.
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(thread_safe(Event))


def encode(event: Event) -> str:
    """The event as one line of JSON, without the line's end; nothing in it controls a terminal."""
    line = msgspec.json.encode(event).decode()
    return line if line.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in line)


def _escaped(character: str) -> str:
    """JSON's escape; outside of strings the line has only printable characters."""
    return json.dumps(character)[1:-1] if character != "\x7f" else r"\u007f"


def decode(line: str | bytes) -> Event:
    """The event on one line of JSON; raises `msgspec.ValidationError` for anything else."""
    return _decoder.decode(line)


def ignore(event: Event) -> None:
    """An `Emit` that drops every event."""
