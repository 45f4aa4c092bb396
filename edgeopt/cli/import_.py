"""`edgeopt import`: a model of another framework as an ONNX model, proved against the original."""

from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.importing.request import ImportRequest
from edgeopt.platform.command_line import join_words
from edgeopt.views.blocks import Block, Commands, Table, columns, lines, rows, section

if TYPE_CHECKING:
    from edgeopt.importing.importer import Imported


@asks(ImportRequest)
def import_(request: ImportRequest, json: JsonFlag = False) -> None:
    """Convert a model of another framework to ONNX and prove that it gives the same outputs.

    Takes PyTorch, Hugging Face, Keras, TensorFlow, TFLite, scikit-learn and ONNX models.

    \b
    The model and its converter run in the environment of --python; edgeopt needs neither. The proof
    runs the original and the ONNX model on the same inputs, at several sizes of each open dimension.
    The samples are written beside the model, as OUT.npz, and what the processor of a Hugging Face
    folder does as OUT.pre.toml or OUT.pre.onnx. A language model is exported with its cache; its
    tokenizer and generation settings are written as OUT.text/. The encoder of Whisper is written
    as OUT.encoder.onnx, with its samples.

    \b
    Exit code 0: written; 2: wrong usage, or a source with code without --trust; 3: a model or
    data that cannot be imported; 5: a missing package; 6: the ONNX model gives other outputs.
    Nothing is written then.

    \b
    Examples:
      edgeopt import forest.joblib -o forest.onnx --trust --python ~/ml/bin/python
      edgeopt import net.py:Net -o net.onnx --shape image=1x3x224x224 --dynamic batch
      edgeopt import bert-folder/ -o bert.onnx --python ~/ml/bin/python
      edgeopt import classifier.keras -o classifier.onnx --python ~/tf/bin/python
      edgeopt import old.onnx -o new.onnx --opset 17 --shape image=1x3x224x224
    """
    from edgeopt.importing.importer import import_model

    def shown(result: "Imported") -> list[Block]:
        return [*show(result), section("", _next(result))]

    execute("import", lambda emit: import_model(request, emit), shown, json, "no model was written")


def _next(result: "Imported") -> Commands:
    from edgeopt.bundle.cache import present_name

    bundle = str(Path(result.output).with_suffix(".edgeopt"))
    pre = ["--pre", result.pre.file] if result.pre is not None else []
    # A search of a decoder measures texts, and the samples are single steps.
    is_decoder = any(present_name(each.name) for each in result.inputs)
    data = [] if is_decoder else ["--data", result.samples_file]
    command = ["edgeopt", "optimize", result.output, *data, *pre, "-o", bundle]
    found = [("Find its fastest deployment:", join_words(command))]
    if (encoder := result.encoder) is not None:
        bundle = str(Path(encoder.output).with_suffix(".edgeopt"))
        command = ["edgeopt", "optimize", encoder.output, "--data", encoder.samples_file, "-o", bundle]
        found.append(("That of the encoder:", join_words(command)))
    return Commands(tuple(found))


def _preprocessing(result: "Imported") -> list[str]:
    from edgeopt.graph.accuracy import agreement

    if result.pre is None:
        return []
    on = units.count(result.pre.samples, "sample")
    return [
        f"Preprocessing: {result.pre.file}, {agreement(result.pre.snr_db, result.pre.processor, True)} on {on}"
    ]


def _encoder(result: "Imported") -> list[str]:
    from edgeopt.graph.accuracy import agreement

    if (encoder := result.encoder) is None:
        return []
    on = units.count(encoder.proof.samples, "sample")
    agrees = agreement(encoder.proof.snr_db, "the original's keys and values", True)
    return [f"Encoder: {encoder.output}, {agrees} on {on}; samples: {encoder.samples_file}"]


def show(result: "Imported") -> list[Block]:
    from edgeopt.graph.accuracy import decibels
    from edgeopt.graph.import_proof import sizes_text

    proof = result.proof
    table = Table(
        columns("=output", "!agreement", "!worst sample", "!largest difference"),
        rows(*(
            (each.name, decibels(each.snr_db), decibels(each.worst_db), f"{each.max_abs:.2g}")
            for each in proof.outputs
        )),
    )  # fmt: skip
    sizes = sizes_text(proof.sizes)
    on = units.count(proof.samples, "sample") + (f" and at {sizes}" if sizes else "")
    return [
        table,
        *lines(result.notes),
        section(
            "",
            *lines([
                f"Proved against {result.framework} on {on} in {proof.runtime}.",
                f"Written by {result.exporter}, opset {result.opset}: {result.output}  ({result.seconds:.1f} s)",
                f"Samples: {result.samples_file}",
                *_encoder(result),
                *([f"Tokenizer and generation settings: {result.text}"] if result.text else []),
                *_preprocessing(result),
            ]),
        ),
    ]  # fmt: skip
