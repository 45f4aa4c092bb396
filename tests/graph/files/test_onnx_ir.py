"""In processes of their own: what one of them has imported stays imported."""

import subprocess
import sys

import pytest

from edgeopt.data.demo import MODEL

SAYS = "; print('sympy.core' in sys.modules)"


def told(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_model_is_read_simplified_and_written_without_sympy(tmp_path):
    program = f"""
import sys
from pathlib import Path
from edgeopt.graph.model import load, save
from edgeopt.graph.pipeline import run_pipeline
result = run_pipeline(load(Path({str(MODEL)!r})))
assert any(entry.applied for entry in result.ledger)
save(result.model_ir, Path({str(tmp_path / "out.onnx")!r}))
print("sympy.core" in sys.modules)
"""
    assert told(program) == ["False"]


def test_who_computes_with_sizes_gets_it():
    begin = f"import sys; from edgeopt.graph.model import load; model = load({str(MODEL)!r})"
    assert told(begin + SAYS) == ["False"]
    size = "; import onnx_ir as ir; print((ir.SymbolicDim('n') * 2 + 1).evaluate({'n': 4}))"
    assert told(begin + size + SAYS) == ["9", "True"]
    assert told(begin + "; import sympy; print(sympy.Integer(2) + 3)" + SAYS) == ["5", "True"]


@pytest.mark.parametrize(
    "content", [b"GGUF" + bytes(60), MODEL.read_bytes()[:2000]], ids=["of another kind", "cut"]
)
def test_a_file_that_is_refused_is_refused_before_onnx_ir_is_imported(tmp_path, content):
    (tmp_path / "m.onnx").write_bytes(content)
    program = f"""
import sys
from edgeopt.errors import ModelError
from edgeopt.graph.model import load
try:
    load({str(tmp_path / "m.onnx")!r})
except ModelError as error:
    print(len(error.hint) > 9, "onnx_ir" in sys.modules)
"""
    assert told(program) == ["True", "False"]
