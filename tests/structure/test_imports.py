"""The rules for imports, tried on the code and on planted faults."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.structure.imports import ROOT, SOURCES, imports, modules, parsed

# What any part may use.
GROUND = (
    *("edgeopt.decoding", "edgeopt.errors", "edgeopt.events"),
    *("edgeopt.units", "edgeopt.nearest", "edgeopt.notebook", "edgeopt.platform", "edgeopt.workspace"),
)

# The rooms of the core from the ground up: each imports those before it only, inside functions too.
FLOORS = (
    *("errors", "decoding", "events", "version", "units", "nearest", "notebook", "privacy", "options", "keywords"),
    *("platform", "workspace", "plugins"),
    *(
        "hw",
        "graph",
        "diagram",
        "backends",
        "profiles",
        "data",
        "workers",
        "text",
        "speech",
        "bundle",
        "registry",
        "fleet",
    ),
    *("measure", "quant", "importing", "pipeline", "remote", "lab"),
    *("views", "commands", "cli", "__main__"),
)

# The stages of `edgeopt.pipeline` in the order of a search: each imports those before it only.
STAGES = (
    *("cache", "notes", "objectives", "outcome", "padding", "stopping"),
    *("request", "builders", "runner", "preset", "baseline", "shapes", "goal", "context", "decoder"),
    *("plans", "inspect", "screen", "race", "recall", "prove", "optimize", "speech"),
    *("quantize", "replay_steps", "replay"),
)

# Who takes less than what stands below it: what such a part may import of edgeopt. The first entry that fits a
# module holds.
LAYERS = (
    ("edgeopt.errors", ()),
    ("edgeopt.decoding", ()),
    ("edgeopt.version", ()),
    ("edgeopt.units", ()),
    ("edgeopt.nearest", ()),
    ("edgeopt.notebook", ()),
    ("edgeopt.privacy", ()),
    ("edgeopt.events", ("edgeopt.decoding", "edgeopt.errors")),
    ("edgeopt.platform", ("edgeopt.errors", "edgeopt.platform")),
    ("edgeopt.plugins", ("edgeopt.decoding", "edgeopt.errors", "edgeopt.plugins")),
    ("edgeopt.hw", (*GROUND, "edgeopt.hw")),
    *(
        (f"edgeopt.views.{writer}", ("edgeopt.errors", "edgeopt.views"))
        for writer in ("blocks", "html", "markdown", "markup", "terminal")
    ),
    ("edgeopt.graph", (*GROUND, "edgeopt.graph", "edgeopt.hw.device")),
    # What only one runtime understands is written in the words of passes.
    *(
        (
            f"edgeopt.backends.{runtime}.lowering",
            (
                *GROUND,
                "edgeopt.backends",
                *("edgeopt.graph.ledger", "edgeopt.graph.nodes", "edgeopt.graph.passes"),
            ),
        )
        for runtime in ("onnxruntime", "openvino")
    ),
    (
        "edgeopt.backends",
        (
            *GROUND,
            "edgeopt.backends",
            "edgeopt.graph.masks",
            "edgeopt.plugins",
            "edgeopt.hw.device",
            "edgeopt.hw.provider_wheels",
        ),
    ),
    ("edgeopt.workers", (*GROUND, "edgeopt.backends", "edgeopt.hw", "edgeopt.workers")),
    (
        "edgeopt.pipeline.cache",
        (
            *("edgeopt.decoding", "edgeopt.errors", "edgeopt.options", "edgeopt.version"),
            *("edgeopt.platform.files", "edgeopt.platform.user_folders", "edgeopt.pipeline.cache"),
        ),
    ),
    # The engine of quantization measures nothing and hands nothing out, but for one of its folders.
    ("edgeopt.quant.measured", ("edgeopt",)),
    (
        "edgeopt.quant",
        (
            *GROUND,
            *("edgeopt.backends", "edgeopt.data", "edgeopt.graph", "edgeopt.profiles", "edgeopt.quant"),
        ),
    ),
)

QT = ("PySide6", "PySide2", "PyQt6", "PyQt5", "shiboken6", "qtpy", "pyqtgraph")
WEB_FRAMEWORKS = ("starlette", "uvicorn", "fastapi", "flask", "django", "aiohttp", "tornado", "sanic", "grpc")

# Nobody in the part imports these, not even inside a function.
NEVER = (
    ("edgeopt", (*QT, *WEB_FRAMEWORKS, "edgeopt_agent", "edgeopt_gui")),
    ("edgeopt_agent", (*QT, "edgeopt_gui")),
    ("edgeopt_gui", (*WEB_FRAMEWORKS, "edgeopt_agent")),
)

KNOW_THE_COMMAND_LINE = ("edgeopt.cli", "edgeopt.__main__", "edgeopt_agent", "edgeopt_gui")

# Imported inside functions only: `edgeopt probe` works on a bare device, and `import edgeopt` stays quick.
HEAVY = (
    "onnxruntime",
    "openvino",
    "onnxscript",
    "onnx",
    "onnx_ir",
    "rich",
    "cpuinfo",
    "scipy",
    "dask",
    "distributed",
    "tokenizers",
    "jinja2",
    "oras",
    "requests",
    "mlflow",
)
INSIDE_FUNCTIONS = (
    ("edgeopt.hw", (*HEAVY, "numpy")),
    ("edgeopt.cli", (*HEAVY, "numpy")),
    ("edgeopt.errors", (*HEAVY, "numpy")),
    ("edgeopt.events", (*HEAVY, "numpy")),
    ("edgeopt.profiles", (*HEAVY, "numpy")),
    ("edgeopt.profiles.targets", (*HEAVY, "numpy")),
    ("edgeopt", HEAVY),
    ("edgeopt_agent", HEAVY),
    ("edgeopt_gui", HEAVY),
)


def violations(module: str, source: str, is_package: bool = False) -> list[str]:
    """Every broken rule in one module, as sentences."""
    found = []
    for item in imports(module, source, is_package):
        where = f"{module}:{item.line} imports {item.name}"
        allowed = _of(LAYERS, module)
        own = _inside(item.name, ("edgeopt",))
        if own and allowed is not None and not _inside(item.name, (module, *allowed)):
            found.append(f"{where}, but may import of edgeopt only: {', '.join(allowed) or 'nothing'}")
        if _inside(item.name, _of(NEVER, module) or ()):
            found.append(f"{where}, which has no place there")
        if _inside(item.name, ("edgeopt.cli",)) and not _inside(module, KNOW_THE_COMMAND_LINE):
            found.append(f"{where}, but nothing below the command line knows it")
        late = _of(INSIDE_FUNCTIONS, module) or ()
        if _inside(item.name, late) and not (item.in_function or item.for_types_only):
            found.append(f"{where} at the level of the module; import it in the function that needs it")
    return found


def upward(module: str, source: str, is_package: bool = False) -> list[str]:
    """Every import that goes up in the house, as sentences."""
    return [
        f"{module}:{item.line} imports {item.name}, which stands above it"
        for item in imports(module, source, is_package)
        if _inside(item.name, ("edgeopt",)) and _floor(item.name) > _floor(module)
    ]


def _floor(name: str) -> int:
    """What is in no room is the front door or one of its public names, above all rooms: it leads into each."""
    room = name.split(".")[1] if "." in name else ""
    return FLOORS.index(room) if room in FLOORS else len(FLOORS)


def _of(table: tuple[tuple[str, tuple[str, ...]], ...], module: str) -> tuple[str, ...] | None:
    return next((entry for part, entry in table if _inside(module, (part,))), None)


def _inside(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def test_every_module_keeps_the_rules():
    checked = modules()
    found = [v for name, path in checked for v in violations(name, path.read_text(), path.stem == "__init__")]
    assert not found, "\n".join(found)
    assert {name.partition(".")[0] for name, _ in checked} == {package for package, _ in SOURCES}


def test_rooms_import_those_below_them():
    checked = [(name, path) for name, path in modules() if name.startswith("edgeopt.")]
    found = [v for name, path in checked for v in upward(name, path.read_text(), path.stem == "__init__")]
    assert not found, "\n".join(found)
    assert {name.split(".")[1] for name, _ in checked} == set(FLOORS), (
        "a room without a floor, or a floor without a room"
    )


def test_a_stage_of_the_pipeline_imports_those_before_it():
    home = "edgeopt.pipeline."

    def stage(module):
        return STAGES.index(module.removeprefix(home).split(".")[0])

    found = [(name, path) for name, path in modules() if name.startswith(home)]
    assert {stage(name) for name, _ in found} == set(range(len(STAGES))), "a stage without a module"
    assert [
        f"{name} imports {each.name}"
        for name, path in found
        for each in imports(name, path.read_text(), path.name == "__init__.py")
        if each.name.startswith(home) and stage(each.name) > stage(name)
    ] == []


def test_a_class_has_a_name_of_its_own_in_its_room():
    """A room is a folder of the core, and each command's folder; `Request` is what each of these is asked."""
    homes: dict[tuple[str, str], list[str]] = {}
    for name, path in modules():
        parts = name.split(".")
        if parts[0] != "edgeopt" or len(parts) < 3:
            continue
        room = ".".join(parts[:3] if parts[1] == "commands" else parts[:2])
        for node in ast.walk(parsed(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault((room, node.name), []).append(name)
    assert {key: found for key, found in homes.items() if len(found) > 1} == {}


def test_an_import_of_a_room_above_is_found():
    assert upward("edgeopt.bundle.read", "from edgeopt.pipeline.optimize import optimize")
    assert upward("edgeopt.cli.main", "import edgeopt.__main__")
    assert not upward("edgeopt.backends.null", "from edgeopt.graph.ledger import Change")
    assert not upward("edgeopt.cli.main", "from edgeopt.version import __version__")


# Each way in which a file can import another; `{}` is its name.
WAYS = (
    "import {}",
    "import {} as other",
    "from {} import something",
    "if TYPE_CHECKING:\n    from {} import Something",
    "def run():\n    from {} import something",
    "def run():\n    if TYPE_CHECKING:\n        import {}",
    "class Something:\n    async def run(self):\n        import {}",
    "try:\n    import {}\nexcept ImportError:\n    pass",
    'import importlib\n\ndef run():\n    importlib.import_module("{}")',
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("above", ["edgeopt", "edgeopt.commands.bench.bench"])
def test_every_way_to_import_what_stands_above_is_found(way, above):
    assert len(upward("edgeopt.measure.rounds", way.format(above))) == 1
    assert not upward("edgeopt.measure.rounds", way.format("edgeopt.hw.device"))


@pytest.mark.parametrize(
    "source",
    ["from edgeopt import probe", "from .. import __version__", "def run():\n    import edgeopt, json"],
)
def test_nobody_inside_comes_in_by_the_front_door(source):
    assert len(upward("edgeopt.measure.rounds", source)) == 1
    assert len(upward("edgeopt.cli.bench", source.replace("..", "edgeopt"))) == 1


def test_no_files_import_each_other_in_a_circle():
    read = [(name, path.read_text(), path.stem == "__init__") for name, path in modules()]
    assert circle(read) == []


def circle(read: list[tuple[str, str, bool]]) -> list[str]:
    """The modules of a circle of imports, those for types and those inside functions too."""
    known = {module for module, _, _ in read}
    try:
        TopologicalSorter({module: _files(module, *more, known) for module, *more in read}).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def _files(module: str, source: str, is_package: bool, known: set[str]) -> set[str]:
    homes = {
        item.name if item.name in known else item.name.rpartition(".")[0]
        for item in imports(module, source, is_package)
    }
    return homes & known - {module}


@pytest.mark.parametrize("way", WAYS)
def test_a_circle_is_found_however_its_files_import_each_other(way):
    first, second, third = (f"edgeopt.measure.{name}" for name in ("rounds", "pairs", "terms"))
    straight = [
        (first, way.format(second), False),
        (second, way.format(third), False),
        (third, "import os", False),
    ]
    assert circle(straight) == []
    assert set(circle([*straight[:2], (third, way.format(first), False)])) == {first, second, third}


def test_a_circle_through_a_package_is_found():
    package, inside = "edgeopt.measure", "edgeopt.measure.rounds"
    assert circle([(package, "from .rounds import loop", True), (inside, "from . import loop", False)])
    assert not circle([(package, "from .rounds import loop", True), (inside, "from .pairs import pair", False)])


PLANTED = (
    ("edgeopt.hw.probe", "from edgeopt.graph import model"),
    ("edgeopt.hw.probe", "from edgeopt import graph"),
    ("edgeopt.hw.probe", "def probe():\n    import edgeopt.backends.base"),
    ("edgeopt.hw.probe", "from ..graph.model import load"),
    ("edgeopt.hw.probe", "import numpy as np"),
    ("edgeopt.hw.host", "from edgeopt.version import __version__"),
    ("edgeopt.graph.model", "from edgeopt.hw.probe import probe"),
    ("edgeopt.graph.model", "from edgeopt.backends.base import Backend"),
    ("edgeopt.graph.passes.fold", "import onnx_ir as ir"),
    ("edgeopt.graph.passes.fold", "class Fold:\n    import onnx"),
    ("edgeopt.graph.passes.fold", "try:\n    import onnxscript\nexcept ImportError:\n    pass"),
    ("edgeopt.backends.null", "from edgeopt.pipeline.race.race import race"),
    ("edgeopt.backends.null", "from edgeopt.hw.probe import probe"),
    ("edgeopt.backends.onnxruntime", "import onnxruntime"),
    ("edgeopt.backends.openvino", 'import importlib\nov = importlib.import_module("openvino")'),
    ("edgeopt.errors", "import edgeopt.events"),
    ("edgeopt.events", "import numpy"),
    ("edgeopt.pipeline.race.race", "from edgeopt.cli.console import execute"),
    ("edgeopt.quant.calibrate", "from onnxruntime import quantization"),
    ("edgeopt.cli.probe", "from rich.table import Table"),
    ("edgeopt.cli.probe", "def show():\n    from PySide6 import QtWidgets"),
    ("edgeopt.bundle.runtime.session", "def serve():\n    import starlette.applications"),
    ("edgeopt.fleet.client", "import edgeopt_agent"),
    ("edgeopt.fleet.client", "def show():\n    from edgeopt_gui import main"),
    ("edgeopt_agent.main", "import edgeopt_gui.main"),
    ("edgeopt_agent.main", "import PySide6"),
    ("edgeopt_gui.main", "from edgeopt_agent import main"),
    ("edgeopt_gui.main", "def serve():\n    import uvicorn"),
)


@pytest.mark.parametrize(("module", "source"), PLANTED)
def test_a_planted_fault_is_found(module, source):
    assert len(violations(module, source)) == 1


ALLOWED = (
    ("edgeopt.hw.probe", "from edgeopt.hw.device import Device\nfrom edgeopt.events import Emit\nimport os"),
    ("edgeopt.hw.probe", "def load():\n    import numpy"),
    ("edgeopt.graph.model", "from edgeopt.hw.device import Device"),
    ("edgeopt.graph.model", "if TYPE_CHECKING:\n    import onnx_ir as ir"),
    ("edgeopt.backends.null", "import numpy\nfrom edgeopt.backends.base import Backend"),
    ("edgeopt.backends.onnxruntime.cpu", "def load():\n    import onnxruntime"),
    ("edgeopt.pipeline.race.race", "from edgeopt.measure.contest import contest\nimport numpy"),
    ("edgeopt.cli.optimize", "from edgeopt.pipeline.optimize import optimize"),
    ("edgeopt_agent.main", "import edgeopt.bundle.runtime.session, starlette"),
    ("edgeopt_gui.main", "import PySide6, edgeopt.events"),
)


@pytest.mark.parametrize(("module", "source"), ALLOWED)
def test_what_the_rules_allow_is_not_reported(module, source):
    assert violations(module, source) == []


def test_an_import_beside_a_type_checking_block_is_still_found():
    source = "if TYPE_CHECKING:\n    import onnx\nelse:\n    import onnxruntime"
    assert [v for v in violations("edgeopt.quant.qdq", source) if "onnxruntime" in v]
    assert not [v for v in violations("edgeopt.quant.qdq", source) if "imports onnx " in v]


def test_a_package_resolves_its_relative_imports_from_itself():
    assert violations("edgeopt.hw", "from .device import Device", is_package=True) == []
    assert len(violations("edgeopt.hw", "from ..graph import model", is_package=True)) == 1


def test_importing_edgeopt_loads_no_runtime():
    heavy = [*HEAVY, *QT, *WEB_FRAMEWORKS, "numpy", "typer"]
    program = f"import edgeopt, sys; print([m for m in {heavy!r} if m in sys.modules])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


REGISTRIES = (
    ("edgeopt/hw/probes/__init__.py", "PROBES"),
    ("edgeopt/graph/passes/__init__.py", "ORDER"),
    ("edgeopt/backends/onnxruntime/lowering/__init__.py", "PLACES"),
    ("edgeopt/backends/openvino/lowering/__init__.py", "PLACES"),
    ("edgeopt/backends/__init__.py", "BACKENDS"),
    ("edgeopt/measure/schedules.py", "TABLE"),
    ("edgeopt/pipeline/plans/recipes.py", "RECIPES"),
    ("edgeopt/commands/ops/cases.py", "FAMILIES"),
    ("edgeopt/cli/commands.py", "GROUPS"),
    ("edgeopt/importing/sources.py", "SOURCES"),
    ("gui/edgeopt_gui/pages/__init__.py", "PAGES"),
    ("agent/edgeopt_agent/deployments/states.py", "TABLE"),
    ("agent/edgeopt_agent/http/table.py", "ROUTES"),
    ("edgeopt/notebook.py", "VIEWS"),
)


@pytest.mark.parametrize(("path", "name"), REGISTRIES)
def test_a_registry_is_a_plain_tuple_that_can_be_read_at_a_glance(path, name):
    values = [
        node.value
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id == name
    ]
    assert len(values) == 1
    assert isinstance(values[0], ast.Tuple)
    assert values[0].elts


def test_help_loads_no_network_code():
    slow = [
        "asyncio",
        "ssl",
        "psutil",
        "zeroconf",
        "importlib.metadata",
        "http.client",
        "numpy",
        "edgeopt.bundle.sign",
    ]
    program = f"""
import sys
from edgeopt.cli.main import run
run(["--help"])
print([name for name in {slow!r} if name in sys.modules], file=sys.stderr)
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "optimize" in shown.stdout
    assert shown.stderr.splitlines()[-1] == "[]"


def test_only_the_backends_list_the_backends_of_the_processor():
    pair = ("onnxruntime-cpu", "openvino-cpu")
    for path in (ROOT / "edgeopt").rglob("*.py"):
        if "backends" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found = isinstance(node, ast.Tuple) and tuple(getattr(one, "value", None) for one in node.elts) == pair
            assert not found, f"{path}: import PROCESSOR from edgeopt.backends."
