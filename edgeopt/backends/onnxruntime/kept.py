"""Where what a provider compiles is kept.

TensorRT names its engines by the structure of a model, not by its weights, and does not look for another version
of itself, another GPU or other options: so each model has a folder of its own for all that an engine depends on.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from edgeopt.backends.protobuf import GRAPH, opened, parts, text
from edgeopt.hw.user_folders import user_cache_folder

_INITIALIZERS = 5  # in GraphProto
_EXTERNAL_DATA = 13  # in TensorProto
_KEY, _VALUE = 1, 2  # in StringStringEntryProto


def folder_for(model: Path, kind: str, versions_of: tuple[str, ...], more: Mapping[str, str]) -> Path | None:
    """Made if need be; None where nothing can be kept, or the model cannot be read.

    Named by the model's content, the versions of the distributions whose names begin so, and `more`.
    """
    root = user_cache_folder()
    if root is None:
        return None
    try:
        folder = root / kind / _digest(model, versions_of, more)
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError, LookupError):
        return None
    return folder


def external_files(model: Path) -> tuple[str, ...]:
    """The files beside it that hold weights."""
    with opened(model) as data:
        entries = [
            {
                text(data, next(parts(data, entry, (_KEY,)))): text(
                    data, next(parts(data, entry, (_VALUE,)), (0, 0))
                )
            }
            for graph in parts(data, (0, len(data)), (GRAPH,))
            for tensor in parts(data, graph, (_INITIALIZERS,))
            for entry in parts(data, tensor, (_EXTERNAL_DATA,))
        ]
    return tuple(dict.fromkeys(entry["location"] for entry in entries if "location" in entry))


def _digest(model: Path, versions_of: tuple[str, ...], more: Mapping[str, str]) -> str:
    import hashlib
    from importlib.metadata import distributions

    digest = hashlib.sha256()
    for path in (model, *(model.parent / name for name in external_files(model))):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    for name, version in sorted(
        (found.name, found.version) for found in distributions() if (found.name or "").startswith(versions_of)
    ):
        digest.update(f"{name} {version}\n".encode())
    digest.update(json.dumps(dict(more), sort_keys=True).encode())
    return digest.hexdigest()[:32]
