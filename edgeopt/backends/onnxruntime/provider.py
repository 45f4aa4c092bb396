"""Execution providers of ONNX Runtime: their properties, and whether they can be used here."""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgeopt.backends.base import ON_INPUTS, Available, EightBits
from edgeopt.backends.onnxruntime.bound import BoundMemory
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.hw.device import Unavailable
from edgeopt.hw.provider_wheels import ProviderWheel

if TYPE_CHECKING:
    from importlib.metadata import Distribution

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
    """Name of the backend."""
    title: str
    key: str
    """Name of the provider in the runtime."""
    options: type[OrtOptions]
    distributions: tuple[str, ...]
    """Python distributions that contain the provider, the one to install first; empty if none is published."""
    systems: tuple[str, ...] = ()
    """Systems on which the provider exists, in the names of Python's `platform`; empty: all."""
    extra: str | None = None
    """The extra of edgeopt that installs the provider."""
    wheel: ProviderWheel | None = None
    """The wheel that contains the provider as a library for the plain runtime."""
    true: str = "1"
    false: str = "0"
    fallbacks: tuple[str, ...] = ()
    """Providers that take the nodes which this one does not support, before the processor does."""
    missing: Callable[[], str | None] = _nothing_missing
    """Returns the reason that there is no device or driver, as far as it is quick to find out."""
    unsent: tuple[str, ...] = ()
    """Options of the provider that are not settings of the runtime; `more` applies them."""
    more: Callable[[Any, Path], Settings] = _nothing_more
    """Returns settings that follow from several options, from the model, or from folders of edgeopt."""
    wheel_devices: Callable[[Any], tuple[str, ...]] = field(default=lambda _options: ())
    """Returns the names of the devices that the library of `wheel` may run on, the preferred one first."""
    not_in_wheel: tuple[str, ...] = ()
    """Options that the library of `wheel` silently ignores."""
    memory: Callable[[Any], BoundMemory | None] = field(default=lambda _options: None)
    """Returns the memory for inputs and outputs; None: the runtime's choice."""
    gpu: Callable[[Any], int | None] = field(default=lambda _options: None)
    """Returns the number of the GPU whose memory the provider keeps in an arena of ONNX Runtime."""
    graph: Callable[[Any], bool] = field(default=lambda _options: False)
    """Returns whether kernels are recorded and replayed."""
    converts_within: bool = False
    """Value of `Backend.converts_within`."""
    on_processor: bool = False
    """Value of `Backend.on_processor`."""
    channels_last: bool = False
    """Value of `Backend.channels_last`."""
    eight_bits: EightBits = ON_INPUTS
    prepare: Callable[[], None] = field(default=lambda: None)
    """Runs once before a session is created."""

    def settings(self, options: OrtOptions, model: Path) -> Settings:
        """Returns the provider's own options in the runtime's format, only those that differ from the defaults."""
        shared = (*OrtOptions.__struct_fields__, *self.unsent)
        own = [f for f in msgspec.structs.fields(type(options)) if f.name not in shared]
        values = {f.name: getattr(options, f.name) for f in own if getattr(options, f.name) != f.default}
        return {name: self._text(value) for name, value in values.items()} | self.more(options, model)

    def _text(self, value: object) -> str:
        return (self.true if value else self.false) if isinstance(value, bool) else str(value)


RUNTIMES = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml",
    "onnxruntime-cann", "onnxruntime-rocm", "onnxruntime-migraphx", "onnxruntime-training",
)  # fmt: skip
"""Distributions that contain the module `onnxruntime`; only one can be installed."""


def available(provider: Provider) -> Available | Unavailable:
    """Returns whether a provider can be used here, or the exact reason that it cannot.

    Importing the runtime takes 150 ms, so the installed packages are checked first; the runtime is imported only
    if it could have the provider.
    """
    system = platform.system()
    if provider.systems and system not in provider.systems:
        return Unavailable(
            f"it exists on {_join(provider.systems, 'and')} only, and this is {_system_title(system)}"
        )
    spec = find_spec("onnxruntime")
    # A module without an origin is only a folder of that name, perhaps in the working directory.
    if spec is None or spec.origin is None:
        return Unavailable(f"the Python package '{_package(provider)}' is not installed", provider.extra)
    installed = [found for name in RUNTIMES if (found := _distribution(name)) is not None]
    names = [found.name for found in installed]
    wheel = installed_wheel(provider)
    if provider.wheel and wheel is None and not provider.distributions:
        return Unavailable(f"the Python package '{_package(provider)}' is not installed", provider.extra)
    could_have = not installed or any(_is(name, provider.distributions) for name in names)
    if wheel is None and not could_have and not any(_built_here(found) for found in installed):
        return Unavailable(
            f"{_join(names, 'and')} {installed[0].version} is without {provider.key}; {_source(provider)}",
            provider.extra,
        )
    missing = provider.missing()
    if missing:
        return Unavailable(missing)
    return _available_in_runtime(provider, wheel, installed)


def installed_wheel(provider: Provider) -> ProviderWheel | None:
    """Returns the wheel of the provider if it is installed, unless a runtime that contains the provider is too."""
    wheel = provider.wheel
    if wheel is None or find_spec(wheel.module) is None or any(map(_distribution, provider.distributions)):
        return None
    return wheel


def _available_in_runtime(
    provider: Provider, wheel: ProviderWheel | None, installed: "list[Distribution]"
) -> Available | Unavailable:
    try:
        import onnxruntime
    except ImportError as error:
        return Unavailable(f"ONNX Runtime cannot be imported: {error}")
    version = str(onnxruntime.__version__)
    if wheel:
        own = _distribution(wheel.distribution)
        return Available(f"{own.version} on ONNX Runtime {version}" if own else version)
    if provider.key in onnxruntime.get_available_providers():
        return Available(version)
    # Two flavours write into the same folder, and only the one installed last runs.
    others = [found.name for found in installed if not _is(found.name, provider.distributions)]
    if others and len(installed) > 1:
        return Unavailable(
            f"{_join(others, 'and')} conflicts with {_package(provider)}: uninstall both, "
            f"then install {_package(provider)} again",
            provider.extra,
        )
    return Unavailable(
        f"ONNX Runtime {version} is built without {provider.key}; {_source(provider)}", provider.extra
    )


def _distribution(name: str) -> "Distribution | None":
    from importlib.metadata import PackageNotFoundError, distribution  # 30 ms, which not every trial needs

    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _built_here(found: "Distribution") -> bool:
    """Whether a distribution was installed from a file, not from an index, so that it may contain any provider."""
    text = found.read_text("direct_url.json")
    try:
        return text is not None and "archive_info" in json.loads(text)
    except ValueError:
        return True


def _is(name: str, names: tuple[str, ...]) -> bool:
    return name.lower().replace("_", "-") in names


def _package(provider: Provider) -> str:
    if provider.distributions:
        return provider.distributions[0]
    return provider.wheel.distribution if provider.wheel else "onnxruntime"


def _source(provider: Provider) -> str:
    if provider.distributions:
        addition = f", or {provider.wheel.distribution} in addition to it" if provider.wheel else ""
        return f"{provider.distributions[0]} brings it, installed in its place{addition}"
    return "no published package brings it: build ONNX Runtime with it"


def _join(words: tuple[str, ...] | list[str], word: str) -> str:
    titles = [_system_title(each) for each in words]
    return f" {word} ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))


def _system_title(system: str) -> str:
    return "macOS" if system == "Darwin" else system
