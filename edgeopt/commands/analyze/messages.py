"""The requests and answers of the workers of `edgeopt analyze`."""

import msgspec

from edgeopt.profiles.schema import Data


class Cover(msgspec.Struct, frozen=True, tag="cover"):
    """Request for the nodes of a model that a backend would run."""

    backend: str
    model_path: str


class Rewrites(msgspec.Struct, frozen=True, tag="rewrites"):
    """Request for the changes that the passes would make to a model."""

    model_path: str
    limit_s: float
    """Processor time of the child process, in seconds; the answer names the passes that it had no time for."""


class RealShapes(msgspec.Struct, frozen=True, tag="real-shapes"):
    """Request to run a model once and return the shapes of its tensors."""

    model_path: str
    shapes: dict[str, tuple[int, ...]] = {}
    """Shapes of the inputs that the user fixed."""
    data_path: str = ""
    """The user's data; empty: inputs are made up."""
    pictures: Data | None = None


class Covered(msgspec.Struct, frozen=True, tag="covered"):
    version: str
    supported: int
    total: int
    unsupported: tuple[str, ...] = ()
    boundaries: int | None = None
    unavailable: str = ""
    """Reason why the backend cannot be used on this device."""


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
    """Folder of the pass."""
    exact: bool
    whats: tuple[str, ...]
    nodes: tuple[str, ...]
    """Nodes that the pass names."""
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
    """Size of all texts that no runtime needs."""


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    shapes: dict[str, tuple[int, ...]]
