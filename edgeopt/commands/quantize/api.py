"""`edgeopt.quantize` from Python."""

from pathlib import Path
from typing import Unpack

from edgeopt.backends.options import as_texts
from edgeopt.commands.quantize.quantize import quantize as run
from edgeopt.commands.quantize.request import Asked, Wishes, request_from
from edgeopt.data.samples import as_file
from edgeopt.events import Emit, ignore
from edgeopt.keywords import read, takes
from edgeopt.quant.measured.records import Quantized
from edgeopt.workspace import WORK, workspace


@takes(Asked, Wishes)
def quantize(
    model: str | Path, out: str | Path | None = None, *, emit: Emit = ignore, **wishes: Unpack[Wishes]
) -> Quantized:
    """Quantizes a model inside the accuracy floor, and writes it where that is faster; says why where it is not.

    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds.
    Without `out` nothing is written, and the result tells what each layer costs and saves.
    """
    with workspace(WORK) as folder:
        data, options = as_file(wishes.get("data"), folder), as_texts(wishes.get("options") or {})
        given = {"sensitivity": out is None, **wishes, "data": data, "options": options}
        return run(request_from(read(Asked, {**given, "model": model, "out": out})), emit)
