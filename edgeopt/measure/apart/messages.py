"""What the process of a backend is asked and answers: one JSON line each; arrays go through files."""

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.measure.processes.failed import Failed

OptionValue = str | int | float | bool | dict[str, list[int]]


class Open(msgspec.Struct, frozen=True, tag="load"):
    """Let go of the model before, and load this one."""

    backend: str
    model_path: str
    options: dict[str, OptionValue] = {}
    strict: bool = False
    custom_ops: tuple[str, ...] = ()


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Run what is loaded once."""

    feeds_path: str
    outputs_path: str


class Close(msgspec.Struct, frozen=True, tag="close"):
    """Let go of what is loaded."""


class Opened(msgspec.Struct, frozen=True, tag="loaded"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """It ran, or it is closed."""


Request = Open | Run | Close
Answer = Opened | Done | Failed

decode_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
decode_answer: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
