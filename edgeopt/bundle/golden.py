"""Golden samples: what a bundle must still give for them, with and without its processing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgeopt.backends.base import Array, Feeds
from edgeopt.bundle.deployment import Part, Processing, Tensor, info_of
from edgeopt.bundle.processing.schema import Pictures
from edgeopt.bundle.read import Bundle
from edgeopt.errors import EdgeoptError, error_text
from edgeopt.graph.accuracy import compare_outputs, decibels
from edgeopt.graph.unjudged import show_accuracy

if TYPE_CHECKING:
    from edgeopt.bundle.processing.run import Processor

RAW, PREPARED, FINAL = "raw", "prepared", "final"
# Other processors round otherwise, and nothing here is in few bits.
_MIN_DB = 60.0
_SPARE = 1.25
Run = Callable[[Feeds], dict[str, Array]]
# Other processors round otherwise.
_LEEWAY_DB = 1.0
_FEW_SAMPLES_DB = 6.0
_ENOUGH_DB = 60.0
"""Highest agreement that is asked for where the floor is not in decibels."""


def put_processing_golden(
    folder: Path, processing: Processing, raw: Sequence[Feeds], outputs: Sequence[Feeds]
) -> str:
    """Writes them into a bundle that is being made; says why there are none of the preprocessing.

    `outputs` are those that the model gave; without `raw` samples, as many are made up.
    """
    # The worker of an agent, which answers golden samples, needs neither of these.
    from edgeopt.bundle import write
    from edgeopt.bundle.processing.run import Processor

    processor, part, reason = Processor(processing, folder, []), processing.pre, ""
    try:
        if part is not None:
            samples = raw or made_up(part, len(outputs))
            taken = [{each.name: np.asarray(one[each.name]) for each in part.inputs} for one in samples]
            try:
                prepared = [processor.pre(one) for one in taken]
            except EdgeoptError as error:
                if raw:
                    raise
                reason = (
                    "The preprocessing has no golden samples, because it does not take generated ones. "
                    f"{error.message}"
                )
            else:
                write.write_golden(folder, RAW, taken)
                write.write_golden(folder, PREPARED, prepared)
        if processing.post is not None:
            write.write_golden(folder, FINAL, [processor.after(each) for each in outputs])
    finally:
        processor.close()
    return reason


def made_up(part: Part, count: int) -> list[dict[str, Array]]:
    """Samples for what has no raw ones in the data."""
    if part.pictures is None:
        from edgeopt.graph.feeds import generate_feeds

        return generate_feeds([info_of(each) for each in part.inputs], None, count, seed=0)
    random, (height, width) = np.random.default_rng(0), picture_size(part.pictures, part.outputs[0])
    name = part.inputs[0].name
    return [{name: random.integers(0, 256, (height, width, 3), np.uint8)} for _ in range(count)]


def picture_size(pictures: Pictures, tensor: Tensor) -> tuple[int, int]:
    """Returns the height and width of a picture like a camera's: larger than the model's input, and not square."""
    sizes = [dim for dim in tensor.shape[1:] if isinstance(dim, int) and dim > 4]
    side = max((*pictures.resize, *pictures.crop, *pictures.letter_box, *sizes), default=64)
    if not (pictures.resize or pictures.letter_box):
        # It is taken as it is, or cut.
        shape = tensor.shape[-2:] if pictures.layout == "nchw" else tensor.shape[-3:-1]
        whole = not pictures.crop and len(shape) == 2
        height, width = (dim if whole and isinstance(dim, int) and dim > 0 else side for dim in (*shape, 0, 0)[:2])
        return height, width
    return int(side * _SPARE), int(side * _SPARE * _SPARE)


def problem_with(bundle: Bundle, processor: "Processor", whole: Run | None = None) -> str:
    """Returns a sentence about what is wrong with a bundle's processing on this machine, or an empty text.

    `whole`: from raw samples to final results, which is run as well where the samples are the user's.
    """
    processing = bundle.deployment.processing
    if processing is None:
        return ""
    problem = ""
    if processing.pre is not None and bundle.has_golden(RAW):
        problem = _unlike(processor.pre, bundle.golden(RAW), bundle.golden(PREPARED))
    if problem:
        return f"The preprocessing of the bundle '{bundle.deployment.name}' {problem}"
    if processing.post is not None and bundle.has_golden(FINAL):
        problem = _unlike(processor.after, bundle.golden("outputs"), bundle.golden(FINAL))
    if problem:
        return f"The postprocessing of the bundle '{bundle.deployment.name}' {problem}"
    return _broken(bundle, whole) if whole is not None else ""


def _broken(bundle: Bundle, whole: Run) -> str:
    """Whether all of it works together; how near it comes is what the golden samples of the parts say."""
    samples, processing = bundle.golden("inputs"), bundle.deployment.processing
    known = processing is None or processing.pre is None or bundle.has_golden(RAW)
    if not samples or not known:
        return ""  # of the first, the golden samples of the model say it themselves
    inputs = samples[0]
    raw = bundle.golden(RAW)[0] if bundle.has_golden(RAW) else {}
    prepared = bundle.golden(PREPARED)[0] if raw else {}
    if any(name not in inputs or not np.array_equal(inputs[name], array) for name, array in prepared.items()):
        return ""  # made up: a model may well not take what comes of that
    final = bundle.golden(FINAL if bundle.has_golden(FINAL) else "outputs")[0]
    feeds = {name: array for name, array in inputs.items() if name not in prepared} | raw
    try:
        names = whole(feeds).keys()
    except EdgeoptError as error:
        return f"The bundle '{bundle.deployment.name}' fails on raw samples: {error.message}"
    if names == final.keys():
        return ""
    return (
        f"The bundle '{bundle.deployment.name}' makes {', '.join(names)} of raw samples, not {', '.join(final)}."
    )


def _unlike(run: Run, samples: list[dict[str, Array]], expected: list[dict[str, Array]]) -> str:
    try:
        got = [run(one) for one in samples]
    except EdgeoptError as error:
        return f"fails on its golden samples: {error.message}"
    # What a hostile bundle has numpy do.
    except (KeyError, ValueError, IndexError, TypeError, MemoryError) as error:
        return f"fails on its golden samples: {error_text(error)}."
    alike = compare_outputs(expected, got)
    if len(expected) == len(got) and not alike.problem and alike.snr_db >= _MIN_DB:
        return ""
    reached = alike.problem or f"{decibels(alike.snr_db)}; {_MIN_DB:g} dB are needed"
    return f"gives other outputs than when it was made: {reached.rstrip('.')}."


def checked_words(bundle: Bundle) -> str:
    """Returns a sentence for people about which processing `problem_with` checks."""
    processing = bundle.deployment.processing
    if processing is None:
        return ""
    held = {"pre": processing.pre and bundle.has_golden(RAW), "post": processing.post and bundle.has_golden(FINAL)}
    names = [f"{name}processing" for name, there in held.items() if there]
    if not names:
        return "Its processing has no golden samples."
    both = len(names) > 1
    subject = " and ".join(names).capitalize()
    return f"{subject} {'give' if both else 'gives'} the same outputs as when the bundle was made."


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    accuracy_db: float
    floor_db: float
    problem: str | None
    """The reason that the outputs cannot be compared at all: not finite, another shape."""
    shows_accuracy: bool = True
    """Whether any golden output has values to compare with: NaN, infinity, zeros and no values prove nothing."""

    def sentence(self, subject: str) -> str | None:
        """Returns what is wrong with these answers, for people, or None if they are good."""
        if not self.problem and self.accuracy_db >= self.floor_db:
            return None
        return (
            f"{subject} reaches {self.accuracy_db:.1f} dB on its golden samples; it needs "
            f"{self.floor_db:g} dB. {self.problem or ''}"
        ).strip()


class GoldenSession(Protocol):
    """A session of a backend, or one that `edgeopt.load` gave."""

    def run(self, feeds: Feeds, /) -> dict[str, Array]: ...


def answer_golden(bundle: Bundle, session: GoldenSession) -> GoldenAnswer:
    """Runs the golden inputs of a bundle and compares; raises what the session raises."""
    outputs = [session.run(feeds) for feeds in bundle.golden("inputs")]
    accuracy = compare_outputs(bundle.golden("reference"), outputs)
    shows = show_accuracy(accuracy.outputs)
    return GoldenAnswer(accuracy.snr_db, golden_floor_db(bundle), accuracy.problem, shows)


def golden_floor_db(bundle: Bundle) -> float:
    """Returns the signal-to-noise ratio that the golden samples must reach on any machine, in dB."""
    evidence = bundle.deployment.evidence or bundle.deployment.predicted
    # These few samples may lie below a floor that all of the proof's together reached; what they gave then is
    # enough now, within reason.
    proved_db = evidence.floor_db if evidence else 0.0
    then_db = compare_outputs(bundle.golden("reference"), bundle.golden("outputs")).snr_db
    if evidence is not None and proved_db <= 0:  # another measure decided: divergence, top-1, a task's
        return min(then_db - _FEW_SAMPLES_DB, _ENOUGH_DB)
    near_db = proved_db - _FEW_SAMPLES_DB if proved_db > 0 else -math.inf
    return max(min(proved_db, then_db - _LEEWAY_DB), near_db)
