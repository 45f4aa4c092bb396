"""Import of a model: starts the child, proves its model against the original, writes model and samples."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from edgeopt import events
from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Backend, TensorInfo, run_all
from edgeopt.data.samples import from_feeds, write_archive
from edgeopt.decoding import thread_safe
from edgeopt.errors import (
    DataError,
    MissingError,
    ModelError,
    UsageError,
    VerificationError,
    error_with_code,
)  # fmt: skip
from edgeopt.graph.import_proof import ImportProof, InputLimits, as_metadata
from edgeopt.graph.randomness import check_not_random
from edgeopt.hw.child import python_command
from edgeopt.hw.device import Unavailable
from edgeopt.importing import children
from edgeopt.importing.decoding import decoding, greedy_note, reference_of, step_samples
from edgeopt.importing.genai_source import (
    SAMPLES,
    builder_limits,
    builder_model,
    builder_texts,
    fix_head_size,
)
from edgeopt.importing.onnx_source import check_runs
from edgeopt.importing.preprocessing import FolderProcessor, Preprocessing, UncoveredError, take_over
from edgeopt.importing.proof import Proof, first_difference, prove
from edgeopt.importing.request import ImportRequest, SourceOptions
from edgeopt.importing.sources import Recognized, recognize
from edgeopt.importing.text_files import gather, publishing, text_folder
from edgeopt.measure.files import check_place, writing
from edgeopt.platform.child_job import ChildJob
from edgeopt.platform.processes import crash_name, end_group, group_options
from edgeopt.version import __version__
from edgeopt.workers.host import last_words, outer_environment
from edgeopt.workers.isolated_backend import IsolatedBackends
from edgeopt.workspace import WORK, workspace

if TYPE_CHECKING:
    from edgeopt.graph.model import Model

CHILDREN = Path(children.__file__).parent
RUNTIME = "onnxruntime-cpu"
NEWEST_IR_VERSION = 10
"""Newest IR version that the oldest supported ONNX Runtime reads."""
SEED, BUILDER = 20240, "onnxruntime-genai"
TEXT, ENCODER = "text-files", "encoder"
_OF_BUILDER = (
    "Steps through the cache were compared with whole runs of the folder's own model, one text at a time; the "
    "original, from which the builder made it, was not run."
)
Runs = list[dict[str, Array]]


class Exported(msgspec.Struct, frozen=True):
    """Result of the child, which is its last line."""

    exporter: str
    framework: str
    base: int
    sizes: tuple[dict[str, int], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[tuple[str, str], ...] = ()
    processor: FolderProcessor | None = None
    notes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Change of the values in each run after those of the sizes."""
    limits: InputLimits = {}
    generated: int = 0
    """Number of tokens at the end of the last run that the original itself has generated."""


class ImportedEncoder(msgspec.Struct, frozen=True):
    """Encoder of a speech model, which is a model of its own."""

    output: str
    samples_file: str
    proof: Proof


class Imported(msgspec.Struct, frozen=True):
    output: str
    samples_file: str
    kind: str
    source: str
    framework: str
    exporter: str
    opset: int
    inputs: tuple[TensorInfo, ...]
    proof: Proof
    notes: tuple[str, ...]
    seconds: float
    pre: Preprocessing | None = None
    """Processor of a Hugging Face folder, as a file for `--pre`."""
    text: str = ""
    """Folder with the tokenizer and the generation settings of a model that generates."""
    encoder: ImportedEncoder | None = None


class _Converted(NamedTuple):
    """Exported model with its proof, not written yet."""

    model: "Model"
    samples: Runs
    exported: Exported
    proof: Proof
    record: ImportProof
    notes: tuple[str, ...]
    pre: Preprocessing | None


def import_model(request: ImportRequest, emit: events.Emit = events.ignore) -> Imported:
    """Writes the model and its samples; writes nothing if the model does not answer as the original does."""
    start = time.monotonic()
    samples_file = request.out.with_suffix(".npz")
    _check_places(request, samples_file)
    _check_data(request.data)
    source = recognize(request.source, request.trust, request.task)
    if source.source.encoder_child:
        check_place(encoder_file(request.out), "The encoder")
    if request.task and source.source.kind != "huggingface":
        raise UsageError(f"A {source.source.title} has no --task.", "Leave it out.")
    backend = backend_named(RUNTIME)
    if isinstance(state := backend.available(), Unavailable):
        raise MissingError(f"{backend.title} is not available: {state.reason}", "pip install onnxruntime")
    with workspace(WORK) as folder, closing(IsolatedBackends()) as apart:
        backend = apart.of(backend)
        encoder = _encoder(request, source, backend, folder, emit)
        made = _convert(request, source, backend, folder, emit, encoder)
        emit(events.Progress("write", str(request.out)))
        _write(made, encoder, request.out, folder)
    exported, model = made.exported, made.model
    return Imported(
        str(request.out), str(samples_file), source.source.kind, source.shown, exported.framework,
        exported.exporter, model.ir.opset_imports.get("", 0), _ports(model), made.proof, made.notes,
        time.monotonic() - start, made.pre, str(text_folder(request.out)) if source.source.decodes else "",
        None if encoder is None else ImportedEncoder(
            str(encoder_file(request.out)), str(encoder_file(samples_file)), encoder.proof
        ),
    )  # fmt: skip


def encoder_file(decoder: Path) -> Path:
    """Returns the place of the encoder's file beside that of its decoder."""
    return decoder.with_suffix(f".{ENCODER}{decoder.suffix}")


def _encoder(
    request: ImportRequest, source: Recognized, backend: Backend, folder: Path, emit: events.Emit
) -> "_Converted | None":
    """Imports the encoder of a speech model as a model of its own."""
    if not source.source.encoder_child:
        return None
    (folder / ENCODER).mkdir()
    child = msgspec.structs.replace(
        source.source, child=source.source.encoder_child, decodes=False, encoder_child=""
    )
    alone = msgspec.structs.replace(source, source=child)
    return _convert(request, alone, backend, folder / ENCODER, emit)


def _convert(
    request: ImportRequest, source: Recognized, backend: Backend, folder: Path, emit: events.Emit,
    encoder: "_Converted | None" = None, builder: bool = True,
) -> "_Converted":  # fmt: skip
    """Exports the model and proves it against the original; `builder`: whether a model builder may write it."""
    from edgeopt.graph.model import load

    if source.source.child:
        exported = _in_child(request, source, folder, emit, builder)
        feeds, reference = (saved_runs(folder / f"{name}.npz", names) for name, names in (
            ("feeds", exported.inputs), ("outputs", exported.outputs),
        ))  # fmt: skip
    elif source.source.kind == "genai":
        exported, feeds, reference = _from_builder(request, Path(source.place), backend, folder)
    else:
        exported, feeds, reference = _from_onnx(request, Path(source.place), backend, folder)
    model = load(folder / "exported.onnx")
    if encoder is None:  # otherwise some inputs are the encoder's
        _check_inputs(model, exported)
    if not request.allow_random:
        check_not_random(model.ir)
    emit(events.Progress("prove", f"{len(feeds)} runs"))
    sizes = exported.sizes[exported.base :]
    decodes, before = source.source.decodes, None if encoder is None else encoder.model.path
    if decodes:
        reference = reference_of(feeds, reference)
    runner = decoding(backend, before) if decodes else backend
    proof = prove(model.path, feeds, reference, exported.base, sizes, runner, request.floor_db, exported.values)
    if builder and not proof.equal and exported.exporter.startswith(BUILDER):
        emit(events.Progress("export", f"{BUILDER} wrote another model; torch.onnx"))
        made = _convert(request, source, backend, folder, emit, encoder, builder=False)
        return made._replace(notes=(*made.notes, f"The graph of {BUILDER} is not used: {proof.difference}"))
    if not proof.equal:
        layers = _layers(folder, exported)
        layer = first_difference(model, feeds[0], layers, backend, request.floor_db, folder) if layers else None
        proof = msgspec.structs.replace(proof, layer=layer)
        raise VerificationError(
            f"The exported model does not answer as the original. {proof.difference}",
            "Nothing was written. Try another --opset or version of the exporter; "
            "for a model in half precision or with quantized weights, set --floor.",
        )
    pre, notes = _preprocessing(exported, _ports(model), request, folder)
    samples = feeds[: exported.base]
    if decodes:
        if exported.generated:
            notes = (*notes, greedy_note(model.path, feeds[-1], exported.generated, backend, before))
        samples = step_samples(model.path, samples, backend, before)
        gather(Path(source.place), folder / "text", folder / TEXT)
    return _Converted(model, samples, exported, proof, _record(source, exported, proof, pre), notes, pre)


def _check_places(request: ImportRequest, samples_file: Path) -> None:
    check_place(request.out, "The model")
    check_place(samples_file, "The samples")
    if request.out.suffix != ".onnx":
        raise UsageError(f"The output '{request.out}' is no .onnx file.", "Write for example: -o model.onnx")
    for source in (Path(request.source), *([request.data] if request.data else [])):
        for made in (request.out, samples_file):
            if source.exists() and made.exists() and made.samefile(source):
                raise UsageError(f"The output '{made}' would overwrite '{source}'.", "Give another name with -o.")


def _check_data(data: Path | None) -> None:
    from edgeopt.data.preparation import picture_files
    from edgeopt.data.read import read_arrays

    if data is not None and picture_files(data):
        raise DataError(
            f"The folder '{data}' holds pictures, and an import takes arrays.",
            "Give an .npz file or .npy files, or leave --data out.",
        )
    if data is not None:
        read_arrays(data)


def _in_child(
    request: ImportRequest, source: Recognized, folder: Path, emit: events.Emit, builder: bool
) -> Exported:
    """Exports the model in the user's environment."""
    command = child_command(source, request.original, folder, job={
        "data": str(request.data.absolute()) if request.data else "",
        "samples": request.samples,
        "opset": request.opset,
        "shapes": request.shapes,
        "dynamic": request.dynamic_axes,
        "allow_random": request.allow_random, "builder": builder,
    })  # fmt: skip
    return msgspec.convert(run_child(command, source, folder, emit), thread_safe(Exported))


def child_command(
    source: Recognized, options: SourceOptions, folder: Path, *, work: str = "import", job: Mapping[str, object]
) -> tuple[str, ...]:
    """Writes the job into the folder; returns the command that runs it in the user's environment."""
    if options.python is None and getattr(sys, "frozen", False):
        raise UsageError("This program has no Python packages of its own.", "Give --python ENV/bin/python.")
    about = {
        "work": work, "kind": source.source.kind, "place": source.place, "name": source.name,
        "task": options.task, "trust": options.trust, "folder": str(folder), "data": "", "samples": 4096,
        "opset": None, "shapes": {}, "dynamic": {}, "threads": 0, "compile": False, "outputs": [],
        "allow_random": False, "builder": False, **job,
    }  # fmt: skip
    path = folder / f"{work}.json"
    path.write_text(json.dumps(about), encoding="utf-8")
    threads = [str(about["threads"])] if about["threads"] else []
    scripts = (str(CHILDREN / "child.py"), str(CHILDREN / source.source.child))
    arguments = ("-u", "-B", *scripts, str(path), *threads)
    return python_command(*arguments) if options.python is None else (str(options.python), *arguments)


def run_child(
    command: tuple[str, ...], source: Recognized, folder: Path, emit: events.Emit
) -> Mapping[str, object]:
    """Returns the child's result; raises the error that it reports, or one that says how it ended."""
    with (folder / "log").open("wb+") as log:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                **group_options(),
                env={**outer_environment(), "TMPDIR": str(folder)},
            )
        except OSError as error:
            raise UsageError(
                f"'{command[0]}' cannot be started: {error.strerror}.", "Correct --python."
            ) from error
        job = ChildJob(process.pid)
        try:
            last = _last_record(process, emit)
            code = process.wait()
        finally:
            # Also ends the processes that the child has started.
            end_group(process.pid)
            process.wait()
            job.close()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        last_line = last_words(log.fileno())
    if last.get("event") == "error":
        raise error_with_code(*(str(last[key]) for key in ("code", "message", "hint")))
    if last.get("event") != "result":
        how = f"was ended by {crash}" if (crash := crash_name(code)) else f"ended with exit code {code}"
        raise ModelError(
            f"The process of '{source.shown}' {how}. {last_line}".strip(), "Check its memory and its code."
        )
    return last


def _last_record(process: "subprocess.Popen[bytes]", emit: events.Emit) -> Mapping[str, object]:
    last: dict[str, object] = {}
    for line in process.stdout or ():
        try:
            last = msgspec.json.decode(line, type=thread_safe(dict[str, object]))
        except msgspec.DecodeError:
            continue
        if last.get("event") == "progress":
            emit(events.Progress(str(last["phase"]), str(last["message"])))
    return last


def saved_runs(path: Path, names: tuple[str, ...]) -> Runs:
    """Returns the runs that the child saved: arrays by number of the run and place of the name."""
    found: dict[int, dict[str, Array]] = {}
    with np.load(path, allow_pickle=False) as archive:
        for key in archive.files:
            run, place = map(int, key.split("."))
            found.setdefault(run, {})[names[place]] = archive[key]
    return [found[run] for run in sorted(found)]


def _layers(folder: Path, exported: Exported) -> dict[str, tuple[str, Array]]:
    if not exported.layers:
        return {}
    arrays = saved_runs(folder / "layers.npz", tuple(name for name, _ in exported.layers))[0]
    return {name: (kind, arrays[name]) for name, kind in exported.layers}


def _from_onnx(request: ImportRequest, path: Path, backend: Backend, folder: Path) -> tuple[Exported, Runs, Runs]:
    """Imports another ONNX model: raises its opset, and fixes its shapes."""
    from edgeopt.data.read import load_data
    from edgeopt.graph.feeds import generate_feeds
    from edgeopt.graph.model import load, save
    from edgeopt.graph.passes import PassContext, standard_passes

    if request.dynamic:
        raise UsageError("The dimensions of an ONNX model cannot be opened.", "Leave out --dynamic.")
    model = load(path)
    check_runs(model)
    context = PassContext(target_opset=request.opset or 0, shapes=request.shapes)
    notes = list(model.repairs)
    changed = model.ir
    for one in standard_passes():
        if (one.name == "raise-opset" and request.opset) or (one.name == "fix-shapes" and request.shape):
            made = one.apply(changed, context)
            if made.refused:
                raise UsageError(f"{made.refused[0].reason[:1].upper()}{made.refused[0].reason[1:]}.")
            notes += [change.what for change in made.applied]
            changed = made.model
    save(changed, folder / "exported.onnx")
    ports = _ports(load(folder / "exported.onnx"))
    if request.data is not None:
        data = load_data(request.data, ports)
        feeds = [data.feeds(k) for k in range(min(len(data), request.samples))]
    else:
        feeds = generate_feeds(ports, changed, request.samples, SEED)
    reference = run_all(path, feeds, backend)
    sizes: tuple[dict[str, int], ...] = ({},) * len(feeds)
    exported = Exported(
        f"edgeopt {__version__}", "ONNX", len(feeds), sizes, tuple(feeds[0]), tuple(reference[0]),
        notes=tuple(f"{note[:1].upper()}{note[1:]}." for note in notes),
    )  # fmt: skip
    return exported, feeds, reference


def _from_builder(
    request: ImportRequest, source: Path, backend: Backend, folder: Path
) -> tuple[Exported, Runs, Runs]:
    """Imports the decoder of a folder of ONNX Runtime GenAI, compared with itself without the use of its cache."""
    from edgeopt.graph.model import load, save

    if request.dynamic or request.shape or request.data is not None:
        raise UsageError("The sizes of a decoder stay open.", "Leave out --dynamic, --shape and --data.")
    model = load(builder_model(source))
    check_runs(model)
    fix_head_size(model.ir, source)
    save(model.ir, folder / "exported.onnx")
    feeds, reference, sizes = builder_texts(source, folder / "exported.onnx", backend)
    names = [port.name for port in _ports(model)]
    fed = tuple(name for name in feeds[0] if name in names)
    exported = Exported(
        BUILDER, "ONNX Runtime GenAI", SAMPLES, sizes, fed, ("logits",),
        notes=(_OF_BUILDER,), limits=builder_limits(source, names),
    )  # fmt: skip
    return exported, feeds, reference


def _preprocessing(
    exported: Exported, ports: tuple[TensorInfo, ...], request: ImportRequest, folder: Path
) -> tuple[Preprocessing | None, tuple[str, ...]]:
    """Returns the file to write beside the model under its name, and the notes of the import."""
    processor = exported.processor
    if processor is None:
        return None, exported.notes
    raw = saved_runs(folder / "raw.npz", (processor.kind,))
    prepared = saved_runs(folder / "prepared.npz", (processor.input,))
    try:
        made = take_over(processor, raw, prepared, ports, request.floor_db, folder)
    except UncoveredError as error:
        return None, (*exported.notes, f"{processor.name} of the folder is not taken over for --pre: {error}.")
    file = pre_file(request.out, made)
    check_place(file, "The preprocessing")
    shutil.copyfile(made.file, folder / file.name)
    return msgspec.structs.replace(made, file=str(file)), exported.notes


def pre_file(model: Path, made: Preprocessing) -> Path:
    return model.with_suffix(f".{Path(made.file).name}")


def _ports(model: "Model") -> tuple[TensorInfo, ...]:
    from edgeopt.graph.analysis.tensors import tensor_row

    rows = [tensor_row(value) for value in model.ir.graph.inputs if not value.is_initializer()]
    return tuple(TensorInfo(r.name, r.dtype or "", r.shape or (), r.shape is not None) for r in rows)


def _check_inputs(model: "Model", exported: Exported) -> None:
    """Raises ModelError if the exporter left out an input because it changes nothing."""
    missing = [name for name in exported.inputs if name not in {info.name for info in _ports(model)}]
    if missing:
        raise ModelError(
            f"The exported model has no input '{missing[0]}': it does not change the outputs.",
            "Remove it from the model's arguments.",
        )


def _record(source: Recognized, exported: Exported, proof: Proof, pre: Preprocessing | None) -> ImportProof:
    return ImportProof(
        source.shown, source.source.kind, exported.framework, exported.exporter, proof.runtime,
        round(proof.snr_db, 1), proof.floor_db, proof.samples, proof.sizes,
        {each.name: round(each.snr_db, 1) for each in proof.outputs}, exported.limits,
        Path(pre.file).name if pre else "", round(pre.snr_db, 1) if pre else 0.0,
    )  # fmt: skip


def _write(made: "_Converted", encoder: "_Converted | None", out: Path, folder: Path) -> None:
    """Writes all files or none: the others get their names when the model has its own."""
    from edgeopt.graph.model import save

    for part in (made, *([encoder] if encoder is not None else [])):
        ir = part.model.ir
        ir.metadata_props.update(as_metadata(part.record))
        if ir.opset_imports.get("", 0) <= 21:  # later ones need a newer IR version
            ir.ir_version = min(ir.ir_version, NEWEST_IR_VERSION)
    samples_file = out.with_suffix(".npz")
    written = {folder / "samples.npz": samples_file}
    write_archive(folder / "samples.npz", from_feeds(made.samples))
    if made.record.pre:
        written[folder / made.record.pre] = out.with_name(made.record.pre)
    if encoder is not None:
        ready = folder / "ready"
        ready.mkdir()
        save(encoder.model.ir, ready / encoder_file(out).name)
        write_archive(ready / encoder_file(samples_file).name, from_feeds(encoder.samples))
        written |= {path: out.with_name(path.name) for path in ready.iterdir()}
    with ExitStack() as stack:
        if (folder / TEXT).is_dir():
            stack.enter_context(publishing(folder / TEXT, text_folder(out)))
        for source, place in written.items():
            file = stack.enter_context(writing(place))
            file.write(source.read_bytes())
            file.flush()
        save(made.model.ir, out)
