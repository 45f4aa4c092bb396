"""Makes variants in a process of its own: a crash in a library is a result.

It is started as `python -m edgeopt.pipeline.build.maker`.
"""

import time
from pathlib import Path

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import Samples, check_samples, from_feeds, open_samples, save_samples
from edgeopt.measure.serve import Answering, serve
from edgeopt.pipeline.build.messages import (
    Answer,
    Inspect,
    Inspected,
    Made,
    Make,
    Plans,
    Request,
    Task,
    decode_request,
)
from edgeopt.pipeline.plans.recipes import recipe_named


def answer(request: Request) -> Answer:
    """Does what was asked."""
    return _inspect(request) if isinstance(request, Inspect) else _make(request)


def _inspect(request: Inspect) -> Inspected:
    from edgeopt.data.regimes import mixed
    from edgeopt.graph.model import load
    from edgeopt.pipeline.build.inspect import describe

    model = load(Path(request.model_path))
    facts = describe(model)
    inputs = tuple(_narrowed(info, request.narrowed) for info in facts.inputs)
    feeds = mixed(inputs, model.ir, request.sample_count)
    save_samples(check_samples(from_feeds(feeds), inputs), Path(request.samples_path))
    return facts


def _narrowed(info: TensorInfo, narrowed: tuple[TensorInfo, ...]) -> TensorInfo:
    """With the sizes that are fixed elsewhere; its own names of axes say more than those of a runtime."""
    other = next((n for n in narrowed if n.name == info.name and len(n.shape) == len(info.shape)), info)
    shape = tuple(fixed if isinstance(fixed, int) else d for d, fixed in zip(info.shape, other.shape, strict=True))
    return msgspec.structs.replace(info, shape=shape)


def _make(request: Make) -> Made:
    begin = time.perf_counter()
    samples = open_samples(Path(request.samples_path))
    task = Task(
        source=Path(request.source_path),
        base=Path(request.base_path),
        out=Path(request.out_path),
        check_samples=samples[range(request.check_first, request.check_first + request.check_count)],
        calibration=_calibration(samples, request.calibration_count),
        settings=request.settings,
        passes=request.passes,
        backends=request.backends,
        lowerings=request.lowerings,
        samples=samples[range(request.check_first + request.check_count)],
        planning=request.planning,
    )
    made = recipe_named(request.recipe).make(task)
    seconds = time.perf_counter() - begin
    return Made((), seconds, made) if isinstance(made, Plans) else Made(tuple(made), seconds)


def _calibration(samples: Samples, count: int) -> Samples | None:
    return samples[range(count)] if count else None


ANSWERING = Answering(decode_request, lambda: answer)

if __name__ == "__main__":
    serve(ANSWERING.lines())
