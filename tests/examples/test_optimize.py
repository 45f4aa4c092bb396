"""The notebook is in step with its program, holds no outputs, and its cells run in order."""

import json
import runpy
import subprocess
import sys

import pytest

from tests.pages import ROOT

PROGRAM = ROOT / "examples" / "optimize.py"
NOTEBOOK = PROGRAM.with_suffix(".ipynb")
# As Jupyter does: the last value of a cell is shown as HTML where it has that.
RUN_CELLS = """
import ast, json, sys
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    body = ast.parse("".join(cell["source"])).body
    last = body.pop().value if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), cell["id"], "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last), cell["id"], "eval"), names)
        shown = value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)
        print("\\nSHOWN", json.dumps({"type": type(value).__name__, "text": shown}))
"""


@pytest.fixture(scope="module")
def cells():
    return json.loads(NOTEBOOK.read_text())["cells"]


def test_notebook_is_in_step_with_the_program():
    made = runpy.run_path(str(ROOT / "packaging" / "make_notebook.py"))["notebook"](PROGRAM.read_text())
    assert NOTEBOOK.read_text() == made, "Run: make notebook"


def test_notebook_is_a_document_that_jupyter_reads_without_outputs(cells):
    document = json.loads(NOTEBOOK.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in cells}) == len(cells) >= 10
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    words = [cell for cell in cells if cell["cell_type"] == "markdown"]
    assert len(code) + len(words) == len(cells)
    assert all("outputs" not in cell for cell in words)
    assert words[0]["source"][0] == "# From a model to a bundle\n"


def test_program_and_cells_have_the_same_lines(cells):
    program = [line for line in PROGRAM.read_text().splitlines() if line and not line.startswith("#")]
    code = [line for cell in cells if cell["cell_type"] == "code" for line in "".join(cell["source"]).splitlines()]
    assert [line for line in code if line] == program


@pytest.mark.slow
def test_cells_run_in_order_and_show_what_they_found(tmp_path):
    command = [sys.executable, "-c", RUN_CELLS, str(NOTEBOOK)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("SHOWN ")]
    assert [each["type"] for each in shown] == ["Device", "Analysis", "Bars", "Outcome", "Bars", "dict"]
    device, analysis, layers, outcome, candidates, answer = (each["text"] for each in shown)
    assert "usable cores" in device
    assert "<summary>" in analysis
    assert layers.count("<tr>") >= 3
    assert "interleaved rounds" in outcome
    assert "onnxruntime-cpu" in candidates
    assert answer.startswith("{'")
    assert "making variants" in done.stdout
    assert (tmp_path / "digits.edgeopt").exists()
