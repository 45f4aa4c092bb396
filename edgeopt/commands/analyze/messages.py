"""What a child process of `edgeopt analyze` is asked and answers, one JSON line each, and what asks it."""

import tempfile
from pathlib import Path

import msgspec

from edgeopt.measure.host import Asked, LocalHost
from edgeopt.measure.serve import Failed


class Cover(msgspec.Struct, frozen=True, tag="cover"):
    """Which nodes of the model would this backend run?"""

    backend: str
    model_path: str


class Rewrites(msgspec.Struct, frozen=True, tag="rewrites"):
    """What would the passes do to the model?"""

    model_path: str
    limit_s: float
    """Of the child's own time on the processor; what is not asked by then is named."""


class RealShapes(msgspec.Struct, frozen=True, tag="real shapes"):
    """Run the model once and tell the shapes of its tensors."""

    model_path: str
    shapes: dict[str, tuple[int, ...]] = {}
    """Of inputs, where the user fixed them."""
    data_path: str = ""
    """The user's data; empty: inputs are made up."""


class Covered(msgspec.Struct, frozen=True, tag="covered"):
    version: str
    supported: int
    total: int
    unsupported: tuple[str, ...] = ()
    boundaries: int | None = None


class Node(msgspec.Struct, frozen=True):
    """A node as a rewrite sees it: enough to say what it costs."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Rewrite(msgspec.Struct, frozen=True):
    pass_name: str
    title: str
    kind: str
    """The folder that the pass lies in."""
    exact: bool
    whats: tuple[str, ...]
    nodes: tuple[str, ...]
    """Those that the pass names."""
    gone: tuple[Node, ...] = ()
    new: tuple[Node, ...] = ()


class Leak(msgspec.Struct, frozen=True):
    """A place in the model that names a folder of the machine on which it was exported."""

    where: str
    text: str


class Rewritten(msgspec.Struct, frozen=True, tag="rewritten"):
    rewrites: tuple[Rewrite, ...]
    not_asked: tuple[str, ...] = ()
    """Passes for which there was no time."""
    leaks: tuple[Leak, ...] = ()
    leaks_count: int = 0
    metadata_bytes: int = 0
    """Of all texts that no runtime needs."""


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    shapes: dict[str, tuple[int, ...]]


class Away(msgspec.Struct, frozen=True, tag="away"):
    """The backend cannot be used on this device."""

    reason: str


Request = Cover | Rewrites | RealShapes
Answer = Covered | Rewritten | Seen | Away | Failed

decode_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
decode_answer: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


CHILD_MODULE = "edgeopt.commands.analyze.child"


class Lane:
    """Several lanes can be asked before any is waited for."""

    def __init__(self) -> None:
        # What runtimes write for a while goes there, and goes with it.
        self._folder = tempfile.TemporaryDirectory(prefix="edgeopt-analyze-")
        self._asked: Asked[Answer] = Asked(LocalHost(Path(self._folder.name)), CHILD_MODULE, decode_answer.decode)

    def ask(self, request: Request) -> None:
        self._asked.send(request)

    def answer(self, limit_s: float) -> Answer | Failed:
        """What it says; that it crashed or hung is an answer too."""
        return self._asked.answer(limit_s)

    def close(self) -> None:
        """Ends the process, and what it left; safe to call twice."""
        self._asked.close()
        self._folder.cleanup()
