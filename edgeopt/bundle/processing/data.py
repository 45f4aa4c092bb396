"""The user's data where a bundle pre-processes: what goes into that, or what the model itself takes."""

from dataclasses import replace
from pathlib import Path

from edgeopt.backends.base import Feeds, TensorInfo
from edgeopt.bundle.deployment import Part
from edgeopt.bundle.processing.attach import Attached
from edgeopt.bundle.processing.golden import info_of
from edgeopt.bundle.processing.run import Processor
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds
from edgeopt.errors import DataError, EdgeoptError, UsageError
from edgeopt.events import Emit, Log
from edgeopt.profiles.schema import Data


def samples_from(
    path: Path,
    inputs: tuple[TensorInfo, ...],
    preparation: Data | None,
    attached: Attached | None,
    folder: Path,
    emit: Emit,
) -> tuple[Samples, Samples | None]:
    """Samples of the model's inputs, and what they were made of where that was given; `folder` takes files."""
    part = attached.processing.pre if attached is not None else None
    if attached is None or part is None:
        return load_data(path, inputs, preparation), None
    if part.pictures is not None:
        return load_data(path, inputs, part.pictures), None
    taken = taken_by(part, inputs)
    try:
        raw = load_data(path, taken, None)
    except DataError as error:
        try:
            found = load_data(path, inputs, preparation)
        except DataError:
            hint = f"Give data for --pre ({', '.join(e.name for e in taken)}), or for the model itself."
            raise DataError(error.message, hint) from None
        emit(Log("info", "The data fits the inputs of the model, not of --pre, so it is not preprocessed."))
        return found, None
    emit(Log("info", "The data fits the inputs of --pre and is preprocessed."))
    attached.put(folder)
    processor = Processor(attached.processing, folder, [])
    try:
        made = from_feeds(processor.pre(raw.feeds(k)) for k in range(len(raw)))
    finally:
        processor.close()
    handed_on = {name: array for name, array in raw.arrays.items() if name not in made}
    samples = check_samples({**handed_on, **made}, inputs, f"the output of --pre for {path.name}")
    return replace(samples, ignored=raw.ignored), raw


def try_after(attached: Attached | None, outputs: Feeds, folder: Path) -> None:
    """Before the long work: UsageError where the postprocessing cannot take what the model gives."""
    if attached is None or attached.processing.post is None:
        return
    attached.put(folder)
    processor = Processor(attached.processing, folder, [])
    try:
        processor.after(outputs)
    except EdgeoptError as error:
        raise UsageError(f"--post fails on the outputs of the model: {error.message}", error.hint) from None
    finally:
        processor.close()


def taken_by(part: Part, inputs: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
    """What the user gives to the whole: the inputs of the preprocessing, and those of the model beside it."""
    own, made = {each.name for each in part.inputs}, {each.name for each in part.outputs}
    rest = (each for each in inputs if each.name not in own and each.name not in made)
    return (*(info_of(each) for each in part.inputs), *rest)
