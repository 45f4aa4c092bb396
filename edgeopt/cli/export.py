"""`edgeopt export`: a bundle in a form that other programs run."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.export.request import ExportRequest
from edgeopt.errors import UsageError
from edgeopt.platform.command_line import quote_word
from edgeopt.views.blocks import Block, Commands, Listed, WordsBlock, facts, lines

if TYPE_CHECKING:
    from edgeopt.commands.export.export import Exported, ExportFormats
    from edgeopt.events import Emit


@asks(ExportRequest)
def export(request: ExportRequest, json: JsonFlag = False) -> None:
    """Export a bundle to a format that runs without edgeopt.

    \b
    onnx         the model alone          runner   a script that needs the runtime and numpy
    openvino-ir  the model as .xml, .bin  docker   the same in a container
    triton       a model repository       cpp      C++ source with CMake

    \b
    If the export can run here, it is first checked on the bundle's golden samples. README.md lists
    what the format does not support; a bundle that cannot be exported correctly is refused.

    \b
    Exit code 0: written; 3: the bundle is damaged; 4: the format does not support this bundle; 6: the
    outputs differ from the golden samples.

    \b
    Examples:
      edgeopt export --list
      edgeopt export model.edgeopt --to runner -o model-runner
      edgeopt export model.edgeopt --to triton -o repository --max-batch-size 16
    """
    from edgeopt.commands.export.export import list_formats

    if request.list:
        execute("export-formats", lambda _emit: list_formats(), show_formats, json)
    else:
        execute("export", lambda emit: _export(request, emit), show, json)


def _export(request: ExportRequest, emit: "Emit") -> "Exported":
    from edgeopt.commands.export.export import export, format_named

    if request.to:
        format_named(request.to)  # a word that is no format is said before what is missing
    if request.bundle is None or not request.to or request.out is None:
        bundle = "BUNDLE" if request.bundle is None else quote_word(str(request.bundle))
        out = "DIR" if request.out is None else quote_word(str(request.out))
        raise UsageError(
            "An export needs a bundle, a format and a folder.",
            f"Run: edgeopt export {bundle} --to {request.to or 'FORMAT'} -o {out}. See the formats: edgeopt "
            "export --list",
        )
    return export(request.bundle, request.to, request.out, emit, request.max_batch_size)


def show_formats(result: "ExportFormats") -> list[Block]:
    return [facts((each.name, each.title) for each in result.formats)]


def show(result: "Exported") -> list[Block]:
    from edgeopt.graph.accuracy import agreement

    texts = [f"{result.out}: {result.format}, {result.files} files, {result.size_bytes:,} bytes."]
    if result.accuracy_db is not None:
        samples = units.count(result.samples, "golden sample")
        needed = f"at least {result.floor_db:.1f} dB is needed"
        texts.append(f"Checked: {agreement(result.accuracy_db, against=True)} on {samples} ({needed}).")
    if result.not_checked:
        texts.append(f"Not checked: {result.not_checked}")
    use = Commands((("", f"cd {quote_word(result.out)}"), *(("", line) for line in result.use)))
    return [*lines(texts), Listed(tuple(result.notes)), WordsBlock("Use it:"), use]
