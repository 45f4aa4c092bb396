"""What a measuring process is asked and answers: one JSON line each."""

import msgspec

from edgeopt.measure.processes.failed import Failed


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Let go of the model before, load this one, run it, and save what it gives."""

    backend: str
    options: dict[str, str | int]
    model_path: str
    feeds_path: str
    outputs_path: str


class Time(msgspec.Struct, frozen=True, tag="time"):
    """Run what is open over and over for this long, at least once."""

    slice_ms: float


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    load_ms: float


class Timed(msgspec.Struct, frozen=True, tag="timed"):
    run_us: float
    """The median of the slice."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The backend does not take the model."""

    message: str


Request = Open | Time
Answer = Opened | Timed | Refused | Failed

decode_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
decode_answer: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
