"""`edgeopt.quantize` from Python."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from edgeopt.backends.options import Value
from edgeopt.data.given import Data, as_file
from edgeopt.events import Emit, ignore
from edgeopt.quantizing.records import PLAN, Quantized
from edgeopt.quantizing.request import request_from
from edgeopt.workspace import WORK, workspace


def quantize(
    model: str | Path,
    out: str | Path | None = None,
    *,
    data: Data | None = None,
    method: str = PLAN,
    backend: str = "",
    options: Mapping[str, Value] | None = None,
    floor: str | float | None = None,
    metric: str | None = None,
    max_drop: str | float | None = None,
    labels: str = "",
    calibration: str = "",
    samples: int | None = None,
    keep_float: Iterable[str] = (),
    augment: str | None = None,
    bias_correction: bool = False,
    rounding: bool = False,
    time_limit_s: float | None = None,
    check_targets: Iterable[str] = (),
    emit: Emit = ignore,
) -> Quantized:
    """Quantizes a model inside the accuracy floor, and writes it where that is faster; says why where it is not.

    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds.
    Without `out` nothing is written, and the result tells what each layer costs and saves.
    """
    from edgeopt.quantizing.quantize import quantize as run

    with workspace(WORK) as folder:
        request = request_from(
            Path(model),
            None if out is None else Path(out),
            data=as_file(data, folder),
            method=method,
            backend=backend,
            options=options,
            floor=_text(floor),
            metric=metric,
            max_drop=_text(max_drop),
            labels=labels,
            calibration=calibration,
            samples=samples,
            keep_float=tuple(keep_float),
            augment=augment,
            bias_correction=bias_correction,
            rounding=rounding,
            time_limit_s=time_limit_s,
            check_targets=tuple(check_targets),
            sensitivity=out is None,
        )
        return run(request, emit)


def _text(value: str | float | None) -> str | None:
    return None if value is None else str(value)
