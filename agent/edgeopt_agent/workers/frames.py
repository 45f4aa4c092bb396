"""Messages between agent and worker: frames of a header, a text (JSON) and data (tensors).

The three sizes come first, so that the receiver can align the tensors in memory.
"""

import struct
from typing import Literal

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.fleet.records import ServerBatching
from edgeopt.workers.protocol import Failed
from edgeopt_agent.drift.figures import TensorFigures
from edgeopt_agent.workers.confinement import WorkerLimit

PREFIX = struct.Struct("<IIQ")
PROTOBUF = "protobuf"
MAX_HEADER_BYTES = 1 << 20
RAW = ".raw"
"""Behind its name: the plain model of a bundle with processing."""

NotFinite = Literal["", "nan", "infinity"]
"""Kind of values other than numbers in the outputs, although all inputs are finite; empty if there are none."""


class Port(msgspec.Struct, frozen=True):
    """One input or output of a model; a dimension is a size, a name, or None where nothing is known."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
    rank_known: bool = True


class Signature(msgspec.Struct, frozen=True):
    """The inputs and outputs that the requests to a model have."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def fits(self, other: "Signature") -> bool:
        """Whether a request to the one can be sent to the other: names and types are the same."""
        return all(
            {(port.name, port.dtype) for port in mine} == {(port.name, port.dtype) for port in its}
            for mine, its in ((self.inputs, other.inputs), (self.outputs, other.outputs))
        )


class Load(msgspec.Struct, frozen=True, tag=True):
    folder: str
    release_id: str
    max_body_bytes: int
    max_tensor_elements: int
    memory_bytes: int = 0
    """Most memory of the process; 0: unlimited."""
    batch_max_size: int = 0
    """Rows that are run together at most; below 2: each request alone."""
    batch_max_delay_us: int = 0
    max_sequences: int = 0
    sequence_idle_s: float = 0.0
    look_every_s: float | None = None
    """The least time between requests whose statistics are taken; None: they are not."""


class Infer(msgspec.Struct, frozen=True, tag=True):
    encoding: str = ""
    """`gzip` or `deflate` where the body is compressed JSON, `protobuf` for a message of gRPC, or empty."""
    header_length: int | None = None
    """Length of the JSON at the start of a body whose tensors follow as bytes."""
    processed: bool = False
    """Whether the request goes through the bundle's pre- and postprocessing."""
    alone: bool = False
    """Whether it shares no run: it may have ended a worker."""


class Compare(msgspec.Struct, frozen=True, tag=True):
    """A request followed by the answer of another release: runs it again and compares the answers."""

    request: Infer
    request_bytes: int
    answer_header_length: int | None


class TryGolden(msgspec.Struct, frozen=True, tag=True):
    time_limit_s: float
    quick: bool = False
    """Each golden input once, without the repeated timing: what a release that serves can bear every second."""


class Generate(msgspec.Struct, frozen=True, tag=True):
    """Begins a generation, without computing anything yet; the text is the prompt as JSON."""

    max_tokens: int | None = None
    """Maximum number of tokens; None: up to the end of the context."""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()


class Transcribe(msgspec.Struct, frozen=True, tag=True):
    """Begins the text of speech, without computing anything yet; the text is the audio file."""

    task: str
    language: str | None = None
    """Code of the language of the speech; None: the model detects it."""
    temperature: float = 0.0


Begin = Generate | Transcribe


class NextPiece(msgspec.Struct, frozen=True, tag=True):
    """Generates one token, or computes a part of a long prompt."""


class EndGeneration(msgspec.Struct, frozen=True, tag=True):
    """Ends the open generation and frees its cache."""


class Loaded(msgspec.Struct, frozen=True, tag=True):
    name: str
    backend: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    limits: tuple[WorkerLimit, ...] = ()
    """Limits of the worker's process, also those that could not be applied."""
    batching: ServerBatching | None = None
    """Batching of requests; None if none was asked for."""
    states: dict[str, str] = {}
    """The output that carries each state from run to run, by its input."""
    processed: Signature | None = None
    """Signature of the model with its processing; None for a bundle without processing."""
    why_no_text: str = ""
    """Reason why the model does not continue prompts, as a sentence; empty if it does."""
    why_no_speech: str = ""
    """Reason why the model does not transcribe speech, as a sentence; empty if it does."""
    takes_messages: bool = False
    """Whether a prompt may be a conversation, as the model has a chat template."""


class Answered(msgspec.Struct, frozen=True, tag=True):
    status: int
    compute_ms: float
    """The model's own time; zero where it did not run."""
    rows: int = 1
    """Number of batch items in the request."""
    binary: bool = False
    """Whether tensors follow the JSON."""
    fault: bool = False
    """Whether the model failed, and not the request."""
    not_finite: NotFinite = ""
    batched: int = 1
    """Requests that shared the run and its time."""
    executions: int = 1
    """0 where another request of the batch counts the run."""
    processing_ms: float = 0.0
    """Time that pre- and postprocessing took."""
    looked: tuple[TensorFigures, ...] = ()
    """Statistics of an earlier request, each told once."""


class Golden(msgspec.Struct, frozen=True, tag=True):
    """The result of running the golden inputs of a bundle."""

    accuracy_db: float
    floor_db: float
    problem: str | None
    """Reason why the answers are not good enough, as a sentence; None if they are."""
    latency_ms: float
    resident_bytes: int
    samples: int = 1


class OutputPowers(msgspec.Struct, frozen=True):
    """One output of both releases: the sum of squared values, and of squared differences."""

    name: str
    signal: float
    noise: float


class Compared(msgspec.Struct, frozen=True, tag=True):
    """The differences between another release's answer and this one's."""

    outputs: tuple[OutputPowers, ...] = ()
    """Outputs that can be compared: a detector may find more boxes than another."""
    not_finite: bool = False
    """Whether the other one holds NaN or infinity where this one holds numbers."""


class GenerationBegun(msgspec.Struct, frozen=True, tag=True):
    prompt_tokens: int = 0
    audio_s: float = 0.0
    """Seconds of speech."""


class PromptRefused(msgspec.Struct, frozen=True, tag=True):
    """The answer to a prompt or setting that the model does not take."""

    sentence: str
    is_too_long: bool = False


class Piece(msgspec.Struct, frozen=True, tag=True):
    """The text that became final with one token; empty after a part of the prompt."""

    text: str
    tokens: int
    """Tokens generated so far."""
    ending: str
    """Reason that the text has ended, as in `TextGeneration.ending`; empty before."""


ToWorker = Load | Infer | Compare | TryGolden | Begin | NextPiece | EndGeneration
FromWorker = Loaded | Answered | Compared | Golden | Failed | GenerationBegun | PromptRefused | Piece

_encoder = msgspec.msgpack.Encoder()
to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(thread_safe(ToWorker))
from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(thread_safe(FromWorker))


def head(message: ToWorker | FromWorker, text_bytes: int = 0, data_bytes: int = 0) -> bytes:
    """Returns the sizes and the header, to be followed by the text and the data."""
    header = _encoder.encode(message)
    return PREFIX.pack(len(header), text_bytes, data_bytes) + header
