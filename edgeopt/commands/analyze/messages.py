"""The requests and answers of the workers of `edgeopt analyze`."""

import msgspec

from edgeopt.profiles.schema import Data


class Cover(msgspec.Struct, frozen=True, tag="cover"):
    """Which nodes of the model would this backend run?"""

    backend: str
    model_path: str


class Rewrites(msgspec.Struct, frozen=True, tag="rewrites"):
    """What would the passes do to the model?"""

    model_path: str
    limit_s: float
    """Of the child's own time on the processor; what is not asked by then is named."""


class RealShapes(msgspec.Struct, frozen=True, tag="real-shapes"):
    """Run the model once and tell the shapes of its tensors."""

    model_path: str
    shapes: dict[str, tuple[int, ...]] = {}
    """Of inputs, where the user fixed them."""
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
    """Why the backend cannot be used on this device."""


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
