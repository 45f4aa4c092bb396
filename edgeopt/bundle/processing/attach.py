"""Conversion of the user's pre- and postprocessing into parts of a bundle, with a check of their names."""

import shutil
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.backends.base import Feeds, TensorInfo
from edgeopt.bundle.deployment import Part, Processing, Tensor, info_of, tensor_of
from edgeopt.bundle.golden import made_up
from edgeopt.bundle.manifest import file_digest
from edgeopt.bundle.processing.run import Processor, described, from_pictures, opened
from edgeopt.bundle.processing.schema import FOLDER, KINDS, Pictures, Step
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds
from edgeopt.decoding import thread_safe
from edgeopt.errors import DataError, EdgeoptError, ModelError, ProfileError, UsageError
from edgeopt.events import Emit, Log
from edgeopt.graph.files.sniff import check_file
from edgeopt.nearest import nearest
from edgeopt.profiles.load import checked_data
from edgeopt.profiles.schema import Data, TargetProfile

_DATA_HINT = "docs/profiles.md lists the keys of [data]."
_STEPS_HINT = "docs/bundles.md lists the steps with their keys."
PRE, POST = "pre", "post"
_DECLARED = ".toml"


def read_pictures(path: Path) -> Pictures:
    """The [data] table of a file: one of its own, or a target profile with which pictures were prepared."""
    if path.suffix == ".onnx":
        raise UsageError(
            f"'{path.name}' is an ONNX model; pictures are prepared by a [data] table.",
            "Give a TOML file with that table: --pre FILE.toml",
        )
    tables = _read(path)
    data = tables.get("data")
    if not isinstance(data, dict):
        raise ProfileError(f"{path}: the table [data] is missing, which says how to prepare pictures.", _DATA_HINT)
    odd = next((name for name in tables if name not in TargetProfile.__struct_fields__), None)
    if odd is not None:
        raise ProfileError(f"{path}: the top level has no key '{odd}'.", _DATA_HINT)
    checked_data(data, path)
    return msgspec.convert(data, thread_safe(Pictures))


def pictures_for(pre: Path | None, *bundles: Processing | None) -> Pictures | None:
    """Returns how pictures become an input: by the file of --pre, else by the first bundle that says it."""
    if pre is not None:
        return read_pictures(pre)
    parts = (each.pre for each in bundles if each is not None)
    return next((part.pictures for part in parts if part is not None and part.pictures is not None), None)


def read_steps(path: Path) -> tuple[Step, ...]:
    """The [[steps]] of a file, in their order."""
    tables = _read(path)
    odd = next((name for name in tables if name != "steps"), None)
    listed = tables.get("steps")
    if odd is not None or not isinstance(listed, list) or not listed:
        what = f"the top level has no key '{odd}'" if odd is not None else "the table [[steps]] is missing"
        raise ProfileError(f"{path}: {what}; postprocessing is a list of [[steps]].", _STEPS_HINT)
    return tuple(_step(each, number, path) for number, each in enumerate(listed, 1))


def _step(table: object, number: int, path: Path) -> Step:
    where = f"{path}: step {number}"
    if not isinstance(table, dict):
        raise ProfileError(f"{where} is not a table.", _STEPS_HINT)
    known = {str(kind.__struct_config__.tag): kind for kind in KINDS}
    kind = known.get(str(table.get("do")))
    if kind is None:
        problem = f"does not know '{table['do']}'" if "do" in table else "does not say what to do"
        raise ProfileError(f"{where} {problem}.", nearest(str(table.get("do", "")), tuple(known)))
    fields = kind.__struct_fields__
    odd = next((key for key in table if key not in {*fields, "do"}), None)
    if odd is not None:
        raise ProfileError(f"{where} ({table['do']}) has no key '{odd}'.", nearest(odd, fields))
    try:
        return msgspec.convert(table, thread_safe(kind))
    except msgspec.ValidationError as error:
        raise ProfileError(f"{where} ({table['do']}): {error}.", _STEPS_HINT) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is no file '{path}'.", "Check the path.") from None
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileError(f"{path} is not valid TOML: {error}.", "Correct that line.") from None


Tensors = Sequence[TensorInfo]


@dataclass(frozen=True, slots=True)
class Attached:
    """Pre- and postprocessing for a bundle, and their files by place in the bundle."""

    processing: Processing
    files: dict[str, Path] = field(default_factory=dict)

    def put(self, folder: Path) -> None:
        """Copies the files into a bundle that is being made."""
        for place, file in self.files.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / place)


def attach(pre: Path | None, post: Path | None, inputs: Tensors, outputs: Tensors) -> Attached | None:
    """`inputs` and `outputs`: of the model; UsageError where the names do not fit, with both sides."""
    if pre is None and post is None:
        return None
    files: dict[str, Path] = {}
    before = after = None
    if pre is not None:
        before = _pictures(pre, inputs) if pre.suffix == _DECLARED else _model(pre, PRE, files)
        _check_pre(pre, before, inputs)
    if post is not None:
        after = _steps(post, outputs) if post.suffix == _DECLARED else _model(post, POST, files)
        _check_post(post, after, outputs)
    return Attached(Processing(before, after), files)


def _model(path: Path, name: str, files: dict[str, Path]) -> Part:
    if path.suffix != ".onnx":
        raise UsageError(
            f"'{path.name}' is neither an ONNX file nor a TOML file with steps.",
            f"Give --{name} an .onnx or .toml file.",
        )
    import onnx

    from edgeopt.graph.files.tensors import external_files

    check_file(path)
    if external_files(onnx.load(path, load_external_data=False), path):
        raise ModelError(
            f"--{name} '{path.name}' has weights in other files.",
            "Save it as one file, with its weights inside.",
        )
    try:
        session = opened(path)
    except ModelError as error:
        raise ModelError(f"--{name} '{path.name}': {error.message}", error.hint) from None
    place = f"{FOLDER}/{name}.onnx"
    files[place] = path
    inputs, outputs = ([tensor_of(each) for each in those] for those in (session.inputs, session.outputs))
    session.close()
    return Part(inputs, outputs, place, file_digest(path))


def _pictures(path: Path, inputs: Tensors) -> Part:
    pictures = read_pictures(path)
    name = pictures.input or (inputs[0].name if len(inputs) == 1 else "")
    made = next((each for each in inputs if each.name == name), None)
    if made is None:
        problem = f"names the input '{name}'" if name else "names no input for the pictures"
        raise UsageError(
            f"[data] in '{path.name}' {problem}; the model takes {_names(inputs)}.",
            f'Write one of them there: input = "{inputs[0].name}"' if inputs else "This model takes no inputs.",
        )
    taken = TensorInfo(name, "uint8", ("height", "width", "channels"))
    prepared = TensorInfo(name, pictures.dtype, made.shape, made.rank_known)
    part = Part(
        [tensor_of(taken)],
        [tensor_of(prepared)],
        pictures=msgspec.structs.replace(pictures, input=name, most_samples=Data().most_samples),
    )
    _try_picture(path, part)
    return part


def _try_picture(path: Path, part: Part) -> None:
    """Raises UsageError if the steps turn a generated picture into a size that the model does not take."""
    tensor = part.outputs[0]
    (raw,) = made_up(part, 1)
    try:
        made = from_pictures(raw[tensor.name], part)
    except DataError as error:
        raise UsageError(f"[data] in '{path.name}': {error.message}", error.hint) from None
    sizes = zip(made.shape, tensor.shape, strict=False)
    if made.ndim != len(tensor.shape) or any(isinstance(b, int) and a != b for a, b in sizes):
        shape = ", ".join(map(str, tensor.shape))
        raise UsageError(
            f"[data] in '{path.name}' makes {list(made.shape)} of a picture; the model takes '{tensor.name}' as "
            f"[{shape}].",
            "Change resize, crop, colour_order or layout in [data].",
        )


def _steps(path: Path, outputs: Tensors) -> Part:
    """Follows what there is from step to step."""
    held, steps = {each.name: each for each in outputs}, read_steps(path)
    taken: dict[str, TensorInfo] = {}
    for number, step in enumerate(steps, 1):
        where = f"Step {number} in '{path.name}' ({step.__struct_config__.tag})"
        if step.on not in held:
            raise UsageError(
                f"{where} reads '{step.on}'; available: {_names(held.values())}.",
                f"A step reads the model's outputs ({_names(outputs)}) or the output of an earlier step.",
            )
        tensor = held.pop(step.on)
        if step.on in {each.name for each in outputs} and tensor in outputs:
            taken[step.on] = tensor
        try:
            made = described(step, tensor)
        except ValueError as error:
            raise UsageError(f"{where} cannot take '{step.on}': {error}.", "Change the step.") from None
        twice = next((each.name for each in made if each.name in held), None)
        if twice is not None or len({each.name for each in made}) < len(made):
            raise UsageError(
                f"{where} writes '{twice or made[0].name}', which already exists.",
                "Give it another name: to = ...",
            )
        held |= {each.name: each for each in made}
    made_here = [each for each in held.values() if each not in outputs or each.name in taken]
    return Part([tensor_of(e) for e in taken.values()], [tensor_of(e) for e in made_here], steps=list(steps))


def _check_pre(path: Path, part: Part, inputs: Tensors) -> None:
    hint = "Each output of the preprocessing must have the name of a model input."
    _check_fit(f"--pre '{path.name}' gives", part.outputs, "the model takes", inputs, hint)


def _check_post(path: Path, part: Part, outputs: Tensors) -> None:
    hint = "Each input of the postprocessing must have the name of a model output."
    _check_fit(f"--post '{path.name}' takes", part.inputs, "the model gives", outputs, hint)
    left = {each.name for each in outputs} - {each.name for each in part.inputs}
    twice = next((each.name for each in part.outputs if each.name in left), None)
    if twice is not None:
        raise UsageError(
            f"--post '{path.name}' writes '{twice}', which is also an output of the model.",
            "Rename it in the postprocessing.",
        )


def _check_fit(first: str, mine: Sequence[Tensor], second: str, its: Tensors, hint: str) -> None:
    """Every tensor of the one side is among those of the model, by name, type and shape."""
    known = {each.name: tensor_of(each) for each in its}
    if not mine or any(each.name not in known for each in mine):
        raise UsageError(f"{first} {_names(mine)}; {second} {_names(its)}.", hint)
    for one in mine:
        other = known[one.name]
        sizes = zip(one.shape, other.shape, strict=False)
        fixed = [(a, b) for a, b in sizes if isinstance(a, int) and isinstance(b, int)]
        ranks = len(one.shape) == len(other.shape) or not (one.shape and other.shape)
        if one.dtype != other.dtype or not ranks or any(a != b for a, b in fixed):
            raise UsageError(
                f"{first} '{one.name}' as {_describe_tensor(one)}; {second} {_describe_tensor(other)}.",
                "Change one to match the other, or leave out the processing.",
            )


def _describe_tensor(tensor: Tensor) -> str:
    return f"{tensor.dtype} [{', '.join(map(str, tensor.shape))}]"


def _names(tensors: Iterable[TensorInfo | Tensor]) -> str:
    return ", ".join(each.name for each in tensors) or "nothing"


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
    """Raises UsageError, before the long work, if the postprocessing cannot take the model's outputs."""
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
    """Returns the inputs that the user supplies: those of the preprocessing, and the model's others."""
    own, made = {each.name for each in part.inputs}, {each.name for each in part.outputs}
    rest = (each for each in inputs if each.name not in own and each.name not in made)
    return (*(info_of(each) for each in part.inputs), *rest)
