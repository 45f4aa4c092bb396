import subprocess
import sys
from pathlib import Path

import pytest

import edgeopt

ROOT = Path(__file__).parents[1]
NAMES = [
    "Batching",
    "Isolation",
    "Models",
    "OperatorOptimizer",
    "OperatorType",
    "Pool",
    "__version__",
    "analyze",
    "bench",
    "load",
    "optimize",
    "optimize_operators",
    "probe",
    "quantize",
]


def test_the_public_names_are_these():
    assert sorted(edgeopt.__all__) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_can_be_used(name):
    assert getattr(edgeopt, name)
    assert name in dir(edgeopt)


def test_bench_is_the_function_before_and_after_the_measuring_modules_are_imported():
    """A submodule named as a public name would take its place once it is imported."""
    program = (
        "import edgeopt, inspect; first = edgeopt.bench; import edgeopt.measure.rounds, edgeopt.commands.bench; "
        "print(inspect.isfunction(first), edgeopt.bench is first)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "True True"


def test_no_submodule_has_a_public_name():
    files = [*(ROOT / "edgeopt").glob("*.py"), *(ROOT / "edgeopt").glob("*/__init__.py")]
    names = {path.parent.name if path.stem == "__init__" else path.stem for path in files}
    assert "measure" in names
    assert names.isdisjoint(NAMES)


def test_another_name_is_refused_by_its_name():
    with pytest.raises(AttributeError, match="no_such_name"):
        edgeopt.no_such_name  # noqa: B018 - reading it is the test


def test_reading_the_names_loads_nothing():
    """The names come when they are used, so an editor's look at the module costs nothing."""
    program = "import edgeopt, sys; dir(edgeopt); print([m for m in sys.modules if m.startswith('edgeopt.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['edgeopt.privacy', 'edgeopt.version']"
