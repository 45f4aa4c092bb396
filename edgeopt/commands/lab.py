"""`edgeopt lab`: runs a lab and writes its reports."""

from pathlib import Path

from edgeopt.errors import ConstraintError
from edgeopt.events import Emit
from edgeopt.lab.lab_run import run_lab
from edgeopt.lab.records import LabResults, read_results, write_results
from edgeopt.lab.request import LabRunRequest, LabShowRequest
from edgeopt.measure.files import writing
from edgeopt.views import markdown
from edgeopt.views.blocks import WordsBlock
from edgeopt.views.lab import page, sections, summary


def run(request: LabRunRequest, emit: Emit) -> LabResults:
    """Runs the lab; `report.html` and `report.md` beside the results are as up to date as these."""
    return run_lab(request, emit, publish=_publish)


def _publish(results: LabResults, folder: Path) -> None:
    """Writes the results and, beside them, their reports."""
    write_results(results, folder)
    text = markdown.page(f"Lab: {results.lab}", (WordsBlock(summary(results), "strong"), *sections(results)))
    for name, content in (("report.html", page(results)), ("report.md", text)):
        with writing(folder / name) as file:
            file.write(content.encode())


def show(request: LabShowRequest) -> LabResults:
    return read_results(request.results)


def failure(results: LabResults) -> ConstraintError | None:
    """Returns the error for cells that failed, were not compared, or are slower than before."""
    found = [
        f"{what}: {', '.join(each.name for each in cells)}"
        for what, cells in (
            ("not complete", results.failed),
            (f"slower than before by more than {results.max_slowdown}", results.slower),
            ("not compared", results.not_compared),
        )
        if cells
    ]
    hint = "The report has the reasons; the same command runs only the cells that are not complete."
    text = "; ".join(found)
    return ConstraintError(f"{text[0].upper()}{text[1:]}.", hint) if found else None
