"""The bundle's model and golden samples, copied into an export."""

import shutil
from pathlib import Path

from edgeopt.commands.export.base import Order

GOLDEN = "golden"


def copy_model(order: Order, folder: Path, name: str = "") -> Path:
    """The model file with all that lies beside it (external data is found by its name there)."""
    source = order.bundle.model
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / (name or source.name)
    shutil.copyfile(source, place)
    for beside in sorted(source.parent.rglob("*")):
        if beside.is_file() and beside != source and _belongs(beside, source):
            target = folder / beside.relative_to(source.parent)
            if beside.suffix == ".bin" and beside.stem == source.stem and source.suffix == ".xml":
                target = place.with_suffix(".bin")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(beside, target)
    return place


def copy_golden(order: Order, folder: Path) -> None:
    """What goes in, and what the source model gave for it."""
    source = order.bundle.folder / GOLDEN
    for name in ("inputs", "reference"):
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / GOLDEN / name)
        else:
            (folder / GOLDEN).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / f"{name}.npz", folder / GOLDEN / f"{name}.npz")


def _belongs(file: Path, model: Path) -> bool:
    """Weights beside the model; another model is another variant's."""
    if file.suffix in {".onnx", ".xml"}:
        return False
    return not (file.suffix == ".bin" and file.with_suffix(".xml").exists()) or file.stem == model.stem
