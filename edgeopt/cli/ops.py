"""`edgeopt ops`: single operators on this device, by backend."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from edgeopt import units
from edgeopt.cli.console import JsonFlag, MarkdownFlag, asks, execute, refuse_two_voices
from edgeopt.commands.ops.case import STATUSES, Compatibility, OperatorCoverage, OperatorResult, Report
from edgeopt.commands.ops.matrix import LEGEND, MARKS, MOODS, Flaw, flaws, matrix, roofline_note, summary
from edgeopt.commands.ops.request import OpsRequest
from edgeopt.views.blocks import Block, Listed, Marked, Row, Table, WordsBlock, columns, lines, section
from edgeopt.views.markdown import page

if TYPE_CHECKING:
    from edgeopt.commands.ops.case import Report
    from edgeopt.events import Emit
    from edgeopt.views.blocks import Block

_NAMED = 5
_NOTHING_BETWEEN = 1.1


@asks(OpsRequest)
def ops(request: OpsRequest, markdown: MarkdownFlag = False, json: JsonFlag = False) -> None:
    """Test the operators of each backend on this device: correctness and speed.

    \b
    About a thousand models with one operator each run on every available backend. Their outputs are
    compared with numpy in double precision; crashes and hangs are results too. Results are cached.

    \b
    Examples:
      edgeopt ops                               all operators on all backends
      edgeopt ops model.onnx                    the operators of a model
      edgeopt ops --only Conv,MatMul --again
      edgeopt ops --quick --backend openvino-cpu
      edgeopt ops --markdown > operators.md
    """

    def work(emit: "Emit") -> "Report":
        from edgeopt.commands.ops.ops import ops

        refuse_two_voices(json, markdown)
        return ops(request, emit)

    execute(
        "ops",
        work=work,
        show=to_markdown if markdown else show,
        json=json,
        left_behind="results so far are kept; run the same command to continue",
    )


def show(report: Report) -> list[Block]:
    """The matrix, or the model's view of it; then every case that does not conform."""
    found = _flaws_shown(report)
    count = sum(flaw.count for flaw in found)
    title = f"{count} results do not conform:" if count > 1 else "One result does not conform:"
    flaw_lines = (WordsBlock(f"{MARKS[each.status]} {_flaw(each)}", MOODS[each.status]) for each in found)
    flawed = section(title, *flaw_lines) if found else None
    return [*_main(report, families=True), *([flawed] if flawed else []), section("", *lines(summary(report)))]


def to_markdown(report: Report) -> str:
    """The same as a page of GitHub's Markdown."""
    flawed = Listed(tuple(_flaw(each) for each in _flaws_shown(report)))
    return page("", [*_main(report, families=False), flawed, Listed(tuple(summary(report)))])


def _main(report: Report, families: bool) -> list[Block]:
    if report.model is not None:
        return _model(report, report.model)
    legend = lines([f"{LEGEND}; bold: the fastest in a precision", roofline_note(report)], "faint")
    return [matrix(report, families), section("", *legend)]


def _flaw(flaw: Flaw) -> str:
    return f"{flaw.backend}: {flaw.case}: {flaw.status}: {flaw.message}"


def _flaws_shown(report: Report) -> list[Flaw]:
    """Returns the flaws to show; of a model, only those in its own cases: other modes do not matter to it."""
    if report.model is None:
        return flaws(report)
    from edgeopt.commands.ops.compatibility import cases_of_model

    return flaws(msgspec.structs.replace(report, cases=cases_of_model(report, report.model)))


def _model(report: Report, model: Compatibility) -> list[Block]:
    names = [row.name for row in report.backends if row.version is not None]
    found = (
        Row(
            (
                _title(row),
                row.precision,
                f"{row.count:,}",
                f"{row.share:.1%}" if row.share >= 0.0005 else "",
                *(_result(row, name) for name in names),
            )
        )
        for row in model.operators
    )
    title = WordsBlock(f"{model.name}: {model.nodes:,} nodes, {len(model.operators)} kinds of operators", "strong")
    titles = columns("=operator", "!", ">nodes", ">work", *(f"!{name}" for name in names))
    return [title, Table(titles, tuple(found)), section("", *lines(_model_lines(model)))]


def _title(row: OperatorResult) -> str:
    name = f"{row.domain}.{row.operator}" if row.domain else row.operator
    return f"{name} {row.form}".rstrip()


def _model_lines(model: Compatibility) -> Iterator[str]:
    for name, row in model.coverage.items():
        yield f"{name}: {_coverage(row)}"
    quickest = model.quickest
    if quickest is None:
        yield f"The fastest backend is unknown, because {model.quickest_reason}."
        return
    ordered = sorted(quickest.relative_time.items(), key=lambda item: item[1])
    others = ", ".join(f"{name} {_longer(relative)}" for name, relative in ordered[1:])
    yield (
        f"Fastest for the dominant operators ({', '.join(quickest.operators)}: {units.percent(quickest.share, 0)} "
        f"of the operations): {ordered[0][0]}; {others}, over {quickest.cases} cases."
    )
    yield "Runtimes fuse operators, so a whole model may differ. Measure it with: edgeopt bench MODEL"


def _longer(relative: float) -> str:
    if relative < _NOTHING_BETWEEN:
        return "is about as fast"
    return f"takes {relative:.2f} times as long"


def _coverage(row: OperatorCoverage) -> str:
    if row.supported is None:
        return f"cannot say what it runs of the model: {row.reason}"
    if row.supported == row.total:
        return f"runs all {row.total:,} nodes, by its own count."
    named = ", ".join(row.unsupported[:_NAMED])
    more = " and others" if len(row.unsupported) > _NAMED else ""
    return f"runs {row.supported:,} of {row.total:,} nodes, by its own count; not: {named}{more}."


def _result(row: OperatorResult, name: str) -> Marked:
    status = row.status[name]
    known = next((each for each in STATUSES if each == status), None)
    mark, mood = (MARKS[known], MOODS[known]) if known else ("·", "faint")
    flawed = row.flawed.get(name, 0)
    return Marked(f"{mark} {status}: {flawed} of {row.cases}" if flawed else f"{mark} {status}", mood)
