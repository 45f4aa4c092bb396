"""The models of a proof as files in its folder; `plain`: with sequences and maps as tensors."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.graph.model import digest_of, save
from edgeopt.measure.exactness.plain_outputs import write_with_tensors

if TYPE_CHECKING:
    import onnx_ir as ir

CANDIDATE = "candidate.onnx"


def written(folder: Path, name: str, make: "Callable[[], ir.Model]", *, plain: bool) -> Path:
    """A model like the source, made once."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        save(make(), path)
        if plain:
            write_with_tensors(path, path)
    return path


def saved(folder: Path, model_ir: "ir.Model", *, plain: bool) -> Path:
    """The model as a file in a folder named by its digest, so that a path never means another model."""
    candidates = folder / "candidates"
    candidates.mkdir(exist_ok=True)
    saving = Path(tempfile.mkdtemp(dir=candidates))
    save(model_ir, saving / CANDIDATE)
    if plain:
        write_with_tensors(saving / CANDIDATE, saving / CANDIDATE)
    # Weights in a file of their own have their digest in its name, which the model's file holds.
    place = candidates / digest_of((saving / CANDIDATE,))
    for old in set(candidates.iterdir()) - {place, saving}:
        shutil.rmtree(old)  # a bisection of a large model would fill the disk
    if place.exists():
        shutil.rmtree(saving)
    else:
        saving.rename(place)
    return place / CANDIDATE
