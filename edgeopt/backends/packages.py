"""Whether a runtime is installed, without importing it."""

from importlib.util import find_spec

from edgeopt.backends.base import Available
from edgeopt.hw.device import Unavailable


def installed(module: str, distributions: tuple[str, ...], extra: str) -> Available | Unavailable:
    """Several distributions may bring the same module (onnxruntime, onnxruntime-gpu, ...)."""
    found = find_spec(module)
    # Without an origin it is just a folder of that name, in the working directory perhaps.
    if found is None or found.origin is None:
        return Unavailable(f"the Python package '{distributions[0]}' is not installed", extra)
    from importlib.metadata import PackageNotFoundError, version  # 30 ms, which not every trial needs

    for distribution in distributions:
        try:
            return Available(version(distribution))
        except PackageNotFoundError:
            continue
    return Available("unknown")
