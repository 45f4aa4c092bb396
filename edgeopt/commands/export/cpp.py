"""`cpp`: C++ source with the session options of the bundle; the program checks the golden samples itself."""

import shutil
from pathlib import Path

import numpy as np

from edgeopt.bundle.golden import golden_floor_db
from edgeopt.commands.export.base import Format, Made, Order, refuse
from edgeopt.commands.export.checking import ports
from edgeopt.commands.export.cpp_options import onnxruntime_header, openvino_header
from edgeopt.commands.export.models import GOLDEN, copy_model
from edgeopt.commands.export.settings import ONNXRUNTIME, openvino_settings, ort_options, ort_settings, runtime_of

NAME = "cpp"
FILES = Path(__file__).with_name("files") / "cpp"


def write(order: Order, folder: Path) -> Made:
    runtime = runtime_of(order, NAME)
    inputs, outputs = ports(order, order.bundle.model, order.backend)
    odd = next((port for port in (*inputs, *outputs) if port.dtype in {"str", "bfloat16"}), None)
    if odd is not None:
        raise refuse(order, NAME, f"'{odd.name}' is a tensor of {odd.dtype}", "Use --to runner or --to onnx.")
    made = Made(
        not_checked="The source was not compiled here; `run` compares the golden samples on the device.",
        use=[
            "cmake -S . -B build" + (" -DONNXRUNTIME_ROOT=/where/it/lies" if runtime == ONNXRUNTIME else ""),
            "cmake --build build",
            "build/run .",
        ],
    )
    model = copy_model(order, folder / "model")
    _write_golden(order, folder / GOLDEN)
    for source in (*FILES.glob("*.*"), *(FILES / runtime).glob("*.*")):
        if source.is_file():
            shutil.copyfile(source, folder / source.name)
    name, floor_db = model.relative_to(folder).as_posix(), golden_floor_db(order.bundle)
    if runtime == ONNXRUNTIME:
        _refuse_others(order)
        header = onnxruntime_header(name, floor_db, ort_settings(order, model))
        if ort_options(order).io_binding:
            made.notes.append(
                "The option io_binding is left out: each run copies its arrays to the device and back."
            )
    else:
        names = [port.name for port in inputs], [port.name for port in outputs]
        header = openvino_header(name, floor_db, openvino_settings(order), *names)
    (folder / "options.hpp").write_text(header, encoding="utf-8")
    version = order.bundle.deployment.runtimes.get(runtime)
    if version:
        made.notes.append(f"It was proved with {runtime} {version}; link that version, or run the golden samples.")
    return made


def _refuse_others(order: Order) -> None:
    if order.backend in {"onnxruntime-directml", "onnxruntime-openvino"}:
        raise refuse(
            order,
            NAME,
            f"starting {order.backend} needs a library that this source does not support",
            "Use --to runner.",
        )


def _write_golden(order: Order, folder: Path) -> None:
    """A file of bytes for each tensor, and a list of them: C++ reads no .npz."""
    folder.mkdir(parents=True)
    lines = []
    for kind, runs in (("input", order.bundle.golden("inputs")), ("reference", order.bundle.golden("reference"))):
        for number, run in enumerate(runs):
            for position, (name, array) in enumerate(run.items()):
                file = f"{number}-{kind}-{position}.bin"
                (folder / file).write_bytes(
                    np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
                )
                shape = "".join(f" {dim}" for dim in array.shape)
                lines.append(f"{number} {kind} {array.dtype.name} {file} {array.ndim}{shape} {name}\n")
    (folder / "samples.txt").write_text("".join(lines), encoding="utf-8")


FORMAT = Format(NAME, "C++ source with the session options, and CMake; checks the golden samples itself", write)
