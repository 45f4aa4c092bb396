"""What tells one execution provider of ONNX Runtime from another; each has a file that says its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.backends.onnxruntime.bound import Memory
from edgeopt.backends.onnxruntime.options import OrtOptions

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"

Settings = dict[str, str]


def _nothing_more(_options: Any, _model: Path) -> Settings:  # noqa: ANN401 - each provider has options of its own
    return {}


def _nothing_missing() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    """The backend's."""
    title: str
    key: str
    """The provider's, as the runtime calls it."""
    options: type[OrtOptions]
    distributions: tuple[str, ...]
    """The Python distributions that bring it; the first is the one to install. Empty: none that is published."""
    systems: tuple[str, ...] = ()
    """Where it exists, as Python calls them; empty: everywhere."""
    extra: str | None = None
    """The extra of edgeopt that brings it."""
    plugin: str | None = None
    """A module that registers itself with the plain runtime; it says where its library lies."""
    true: str = "1"
    false: str = "0"
    fallbacks: tuple[str, ...] = ()
    """Providers that take the nodes which this one does not, before the processor does."""
    missing: Callable[[], str | None] = _nothing_missing
    """Why no device or driver is here, as far as that is quick to see."""
    unsent: tuple[str, ...] = ()
    """Its options that are not settings of the runtime; `more` applies them."""
    more: Callable[[Any, Path], Settings] = _nothing_more
    """Settings that follow from several options, from the model, or from where edgeopt keeps things."""
    memory: Callable[[Any], Memory | None] = field(default=lambda _options: None)
    """Where inputs and outputs are to stand; None: where the runtime puts them."""
    gpu: Callable[[Any], int | None] = field(default=lambda _options: None)
    """The number of the GPU whose memory it keeps in an arena of ONNX Runtime's."""
    graph: Callable[[Any], bool] = field(default=lambda _options: False)
    """Its kernels are recorded and replayed."""
    converts_within: bool = False
    """As a backend says it."""
    prepare: Callable[[], None] = field(default=lambda: None)
    """Run once before a session is made."""

    def settings(self, options: OrtOptions, model: Path) -> Settings:
        """Its own options as the runtime takes them: those that differ from the runtime's own choice."""
        shared = (*OrtOptions.__struct_fields__, *self.unsent)
        own = [f for f in msgspec.structs.fields(type(options)) if f.name not in shared]
        values = {f.name: getattr(options, f.name) for f in own if getattr(options, f.name) != f.default}
        return {name: self._text(value) for name, value in values.items()} | self.more(options, model)

    def _text(self, value: object) -> str:
        return (self.true if value else self.false) if isinstance(value, bool) else str(value)
