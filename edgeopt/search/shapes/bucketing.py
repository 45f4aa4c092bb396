"""What `--shape` changes in a search: its samples, what is proved before it, and the candidates with buckets."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from edgeopt.data.samples import Samples
from edgeopt.data.split import Split
from edgeopt.errors import ModelError, Named, TrialError, UsageError
from edgeopt.events import Log, Progress
from edgeopt.search.making.messages import Inspected
from edgeopt.search.notes import Notes
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.ground import Ground
from edgeopt.search.settings import Settings
from edgeopt.search.shapes.filling import prove_filling
from edgeopt.search.shapes.shaping import read_dimensions
from edgeopt.search.shapes.sized import Shaped, shape_samples

NO_BUCKETS = (
    "Buckets were not tried: the best candidates run in ONNX Runtime, where one program for all sizes is as fast."
)
_SHAPE = Named("shape")


def check_shape(settings: Settings) -> None:
    """Raises UsageError for what does not go together with `--shape`."""
    if not settings.shape:
        return
    if settings.goal.kind.needs_labels:
        raise UsageError(
            f"The metric '{settings.goal.metric}' needs labels, which may not fit samples cut to other sizes.",
            "Leave one of them out.",
        )
    if settings.pre is not None or settings.post is not None:
        raise UsageError(
            "--shape cannot be combined with --pre and --post yet.",
            "Leave out --pre and --post, and give data that the model takes.",
        )
    if settings.objective == "throughput":
        raise UsageError(
            f"{_SHAPE} cannot be combined with the objective throughput, which varies the batch size itself.",
            "Leave one of them out.",
            [_SHAPE],
        )


def shaped_samples(
    settings: Settings, facts: Inspected, samples: Samples, chosen: Split, folder: Path
) -> Shaped | None:
    """The samples in the sizes that were asked for, if any; UsageError for sizes that cannot be."""
    if not settings.shape:
        return None
    dimensions, fewer = read_dimensions(settings.shape, facts.inputs)
    return shape_samples(samples, dimensions, chosen, folder, fewer)


@contextmanager
def explained(shaped: Shaped | None) -> Iterator[None]:
    """A model may accept only one size of a dimension that it leaves open."""
    try:
        yield
    except TrialError as error:
        if shaped is None:
            raise
        raise ModelError(
            f"The model does not run at every requested size: it {error.message}",
            "Give sizes that the model supports, or export it again with dimensions that are open in all nodes.",
        ) from error


def settle_buckets(
    shaped: Shaped, ground: Ground, model: Path, source: Candidate, made_up: Samples | None, notes: Notes
) -> Shaped:
    """Proves along which dimensions inputs may be filled up, and tells all that a user must know of the sizes.

    `made_up`: inputs to prove it on besides, where the others are the user's.
    """
    if shaped.note:
        notes.warn(shaped.note)
    sizes = "; ".join(f"{d}, the usual one {d.usual}" for d in shaped.dimensions)
    made = "Your samples were cut, repeated or joined" if made_up is not None else "Generated inputs were created"
    notes.emit(Log("info", f"{made} to these sizes, half of them to the usual one: {sizes}."))
    notes.emit(Progress("preparing", "whether inputs between two sizes may be padded"))
    kinds = [shaped.given] if made_up is None else [shaped.given, made_up]
    found = prove_filling(ground, model, source, shaped.dimensions, kinds)
    for each in found:
        notes.tell(str(each))
    cuts = {each.dimension: each.cuts for each in found if each.cuts is not None}
    mask = next((each.mask for each in found if each.cuts is not None and each.mask), "")
    return dataclasses.replace(shaped, cuts=cuts, mask=mask)


def with_buckets(shaped: Shaped, candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """The first few that can have a program for each size, with these."""
    able = [one for one in candidates if "shapes" in one.options and "buckets" not in one.options][:most]
    return [msgspec.structs.replace(one, options={**one.options, **shaped.options}) for one in able]
