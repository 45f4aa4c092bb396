"""The results of a lab as a report."""

import msgspec
from rich.console import Console

from edgeopt.commands.lab import failure
from edgeopt.lab.records import CellKey, LabCell, LabRace, LabResults
from edgeopt.measure.stats import UNITY, Interval
from edgeopt.views import markdown
from edgeopt.views.lab import page, sections, show, summary
from edgeopt.views.terminal import write

KEY = CellKey("", "", (), (), "")


def cell(model, device, status="done", **more):
    found = {"speedup": Interval(1.5, 1.4, 1.6, 9), "verdict": "faster"} if status == "done" else {}
    return LabCell(model, device, status, KEY, **{**found, **more})


RESULTS = LabResults(
    "lab.toml",
    ("small", "<large>"),
    ("east", "west"),
    (
        cell("small", "east", kept=True),
        cell("small", "west", race=LabRace("", "broken", "1.1x slower than before; 3 % allowed")),
        cell("<large>", "east", "failed", reason="It does not answer.", hint="Start it."),
        cell("<large>", "west", race=LabRace("", "not judged", "It was away.")),
    ),
    "3%",
    "last",
)


def test_summary_counts_what_failed_and_what_became_slower():
    assert summary(RESULTS) == (
        "3 of 4 cells complete (1 from an earlier run); 1 failed; 1 compared with before, 1 slower by "
        "more than 3%; 2 not compared."
    )


def test_summary_claims_nothing_of_cells_that_were_not_compared():
    cells = (
        cell("small", "east", race=LabRace("", "held", "0.99x")),
        cell("small", "west", race=LabRace("", "undecided", "0.97x")),
        cell("<large>", "east", race=LabRace("", "not judged", "It was away.")),
        cell("<large>", "west"),
    )
    results = msgspec.structs.replace(RESULTS, cells=cells)
    assert summary(results) == (
        "4 of 4 cells complete; 2 compared with before, none slower by more than 3%, 1 undecided; 2 not compared."
    )
    assert "<large> on west: not compared: nothing to measure it against." in str(show(results))
    alone = msgspec.structs.replace(RESULTS, cells=cells[2:])
    assert summary(alone) == "2 of 2 cells complete; 2 not compared."


def test_undecided_cell_is_listed_with_its_reason():
    late = cell("small", "east", verdict="undecided", summary="no time was left to prove compiled.", speedup=UNITY)
    results = msgspec.structs.replace(RESULTS, cells=(late, *RESULTS.cells[1:]))
    assert "small on east: no time was left to prove compiled." in str(show(results))


def test_report_names_each_cell_that_needs_attention():
    text = markdown.page("Lab", sections(RESULTS))
    assert "- small on west: 1.1x slower than before; 3 % allowed" in text
    assert "large\\> on east: It does not answer. Start it." in text
    assert "on west: not compared: It was away." in text
    html = page(RESULTS)
    assert html.count("<svg") == 2
    assert "<large>" not in html


def test_reason_that_several_devices_share_is_shown_once():
    """A model that cannot be read fails on all devices."""
    cells = tuple(cell("small", each, "failed", reason="It is damaged.") for each in ("east", "west"))
    text = markdown.page("Lab", sections(LabResults("lab.toml", ("small",), ("east", "west"), cells)))
    assert text.count("It is damaged.") == 1
    assert "- small on east, west: It is damaged." in text


def test_error_names_each_of_them_too():
    assert failure(RESULTS).message == (
        "Not complete: <large> on east; slower than before by more than 3%: small on west; "
        "not compared: <large> on west."
    )


def test_unchanged_model_is_shown_without_a_speed_that_nothing_measured():
    cells = (
        cell("small", "east", speedup=UNITY, verdict="keep what you have"),
        cell("small", "west", speedup=UNITY, verdict="undecided"),
    )
    results = LabResults("lab.toml", ("small",), ("east", "west"), cells)
    text = markdown.page("Lab", sections(results))
    assert "| small | unchanged | undecided |" in text
    assert "1.00x" not in text
    assert "Undecided: time was too short" in text
    assert r"To search again, raise time\_limit\_s, or run with --fresh." in text
    assert summary(results) == "2 of 2 cells complete; 1 undecided."


def test_each_speed_is_on_one_line_of_a_narrow_terminal():
    devices = tuple(f"device-{k}" for k in range(8))
    results = LabResults("lab.toml", ("small",), devices, tuple(cell("small", each) for each in devices))
    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        write(show(results), console)
    lines = capture.get().splitlines()
    assert sum(line.count("1.50x [1.40 1.60]") for line in lines) == 8
    assert max(map(len, lines)) <= 80
