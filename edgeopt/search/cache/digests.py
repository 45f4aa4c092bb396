"""Keys: a digest of everything that what is kept depends on."""

import functools
import hashlib
import importlib.metadata
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from edgeopt.version import __version__

# Settings of the libraries that run models, which decide how fast one is as their versions do.
_SETTINGS = (
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "TBB_", "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD"),
    *("ORT_", "ONNXRUNTIME_", "OV_", "OPENVINO_", "CUDA_", "NVIDIA_", "TRT_"),
)


def key_of(parts: Mapping[str, object]) -> str:
    """One digest of all parts; their order does not matter."""
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(path: Path) -> str:
    """The content of a file; of a folder, the names and contents of all files in it."""
    if path.is_file():
        return file_digest(path)
    files = [file for file in path.rglob("*") if file.is_file()]
    return key_of({file.relative_to(path).as_posix(): file_digest(file) for file in files})


@functools.cache
def code_digest() -> str:
    """This version of edgeopt as it lies here: in a checkout the number stays while the code changes."""
    package = Path(__file__).parents[2]
    files = {file.relative_to(package).as_posix(): file_digest(file) for file in package.rglob("*.py")}
    return key_of({"version": __version__, "files": files})


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Of those that are installed."""
    found = {}
    for name in distributions:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def settings_of_libraries() -> dict[str, str]:
    """What the environment tells the libraries that run models."""
    return {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}
