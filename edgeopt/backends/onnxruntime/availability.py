"""Whether a provider can be used here, and precisely why not. Importing the runtime costs 150 ms.

So the installed packages are checked first; the runtime is imported only if it could have the provider.
"""

import json
import platform
from importlib.util import find_spec
from typing import TYPE_CHECKING

from edgeopt.backends.base import Available
from edgeopt.backends.onnxruntime.provider import Provider
from edgeopt.hw.device import Unavailable

if TYPE_CHECKING:
    from importlib.metadata import Distribution

RUNTIMES = (
    "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml",
    "onnxruntime-cann", "onnxruntime-rocm", "onnxruntime-migraphx", "onnxruntime-training",
)  # fmt: skip
"""What brings the module `onnxruntime`, each instead of the others."""


def available(provider: Provider) -> Available | Unavailable:
    system = platform.system()
    if provider.systems and system not in provider.systems:
        return Unavailable(f"it exists on {_join(provider.systems, 'and')} only, and this is {_said(system)}")
    spec = find_spec("onnxruntime")
    # Without an origin it is just a folder of that name, in the working directory perhaps.
    if spec is None or spec.origin is None:
        return Unavailable(f"the Python package '{_wanted(provider)}' is not installed", provider.extra)
    installed = [found for name in RUNTIMES if (found := _distribution(name)) is not None]
    names = [found.name for found in installed]
    if provider.plugin and find_spec(provider.plugin) is None:
        return Unavailable(f"the Python package '{_wanted(provider)}' is not installed", provider.extra)
    could_have = not installed or any(_is(name, provider.distributions) for name in names)
    if not provider.plugin and not could_have and not any(_built_here(found) for found in installed):
        return Unavailable(
            f"{_join(names, 'and')} {installed[0].version} is without {provider.key}; {_source(provider)}",
            provider.extra,
        )
    missing = provider.missing()
    if missing:
        return Unavailable(missing)
    return _asked(provider, installed)


def _asked(provider: Provider, installed: "list[Distribution]") -> Available | Unavailable:
    try:
        import onnxruntime
    except ImportError as error:
        return Unavailable(f"ONNX Runtime cannot be imported: {error}")
    version = str(onnxruntime.__version__)
    if provider.plugin:
        own = _distribution(provider.distributions[0])
        return Available(f"{own.version} on ONNX Runtime {version}" if own else version)
    if provider.key in onnxruntime.get_available_providers():
        return Available(version)
    # Two flavours write into the same folder, and the one that came last is the one that runs.
    others = [found.name for found in installed if not _is(found.name, provider.distributions)]
    if others and len(installed) > 1:
        return Unavailable(
            f"{_join(others, 'and')} conflicts with {_wanted(provider)}: uninstall both, "
            f"then install {_wanted(provider)} again",
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
    """It came from a file, not from an index, so it may hold anything; the installer notes that."""
    text = found.read_text("direct_url.json")
    try:
        return text is not None and "archive_info" in json.loads(text)
    except ValueError:
        return True


def _is(name: str, names: tuple[str, ...]) -> bool:
    return name.lower().replace("_", "-") in names


def _wanted(provider: Provider) -> str:
    return provider.distributions[0] if provider.distributions else "onnxruntime"


def _source(provider: Provider) -> str:
    if provider.distributions:
        return f"{provider.distributions[0]} brings it, installed in its place"
    return "no published package brings it: build ONNX Runtime with it"


def _join(words: tuple[str, ...] | list[str], word: str) -> str:
    said = [_said(each) for each in words]
    return f" {word} ".join(filter(None, (", ".join(said[:-1]), said[-1])))


def _said(system: str) -> str:
    return "macOS" if system == "Darwin" else system
