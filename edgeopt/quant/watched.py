"""A session of ONNX Runtime that returns some inner values of a model and frees its memory."""

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.base import Array, Options

if TYPE_CHECKING:
    import onnx_ir as ir

Run = Callable[[Mapping[str, Array]], dict[str, Array]]

# Bytes of one sample's activations held at a time; a model with more runs several times per sample.
CHUNK_BYTES = 128 << 20
# The values of inner tensors are wanted, so nothing is fused over them; and without an arena a run's memory is
# gone when its last result is.
_OPTIONS: Options = {"graph_level": "basic", "arena": False}


@contextmanager
def watched(model: "ir.Model", names: Sequence[str]) -> Iterator[Run | None]:
    """Runs the model for these results of nodes of its main graph; None where there are none to run for."""
    if not names:
        yield None
        return
    from edgeopt.backends import backend_named
    from edgeopt.graph.copies import with_outputs
    from edgeopt.graph.files.saving import save

    with tempfile.TemporaryDirectory(prefix="edgeopt-") as folder:
        path = Path(folder) / "watched.onnx"
        save(with_outputs(model, names), path)
        session = backend_named("onnxruntime-cpu").load(path, _OPTIONS)
        try:
            yield session.run
        finally:
            session.close()


def chunks_of(shapes: Mapping[str, tuple[int, ...] | None]) -> list[list[str]]:
    """The tensors in groups that one run can hold; one of unknown shape counts as a large one."""
    chunks: list[list[str]] = []
    room = 0
    for name, shape in shapes.items():
        size = CHUNK_BYTES // 8 if shape is None else 4 * math.prod(shape)
        if not chunks or size > room:
            chunks.append([])
            room = CHUNK_BYTES
        chunks[-1].append(name)
        room -= size
    return chunks


def resident_bytes() -> int | None:
    """What of this process is in memory; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return None
