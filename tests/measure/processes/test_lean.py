import subprocess
import sys

PROGRAM = """
import sys
from pathlib import Path
import numpy
from edgeopt.backends import backend_named
from edgeopt.measure.serve import leave_out_the_converter
from edgeopt.data.demo import MODEL
leave_out_the_converter()
session = backend_named("openvino-cpu").load(MODEL, {})
print([array.shape for array in session.run({"image": numpy.zeros((2, 1, 32, 32), numpy.float32)}).values()])
print("urllib.request" in sys.modules, sys.modules.get("openvino.tools.ovc"))
"""


def test_openvino_runs_without_its_converter():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[(2, 10)]", "False None"], done.stderr
