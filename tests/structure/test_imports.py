"""The rules for imports, as a checker over syntax trees: tried on the code, and on planted faults."""

import ast
import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (("edgeopt", ROOT), ("edgeopt_agent", ROOT / "agent"), ("edgeopt_gui", ROOT / "gui"))

# What any part may use.
GROUND = ("edgeopt.errors", "edgeopt.events", "edgeopt.units", "edgeopt.nearest")

# The rooms of the core from the ground up: each imports those before it only, inside functions too.
FLOORS = (
    *("errors", "events", "version", "units", "nearest", "privacy", "options", "keywords", "workspace"),
    *("hw", "graph", "backends", "profiles", "data", "bundle", "fleet", "measure", "quant", "search"),
    *("commands", "cli", "__main__"),
)

# Who takes less than what stands below it: what such a part may import of edgeopt. The first entry that fits a
# module holds.
LAYERS = (
    ("edgeopt.errors", ()),
    ("edgeopt.version", ()),
    ("edgeopt.units", ()),
    ("edgeopt.nearest", ()),
    ("edgeopt.privacy", ()),
    ("edgeopt.events", ("edgeopt.errors",)),
    ("edgeopt.hw", (*GROUND, "edgeopt.hw")),
    ("edgeopt.commands.documents", ("edgeopt.commands.documents",)),
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
        (*GROUND, "edgeopt.backends", "edgeopt.graph.masks", "edgeopt.hw.device", "edgeopt.hw.cache_folder"),
    ),
    (
        "edgeopt.search.cache",
        (
            *("edgeopt.errors", "edgeopt.options", "edgeopt.version"),
            *("edgeopt.hw.cache_folder", "edgeopt.search.cache"),
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


@dataclass(frozen=True)
class Import:
    name: str
    line: int
    in_function: bool
    for_types_only: bool


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
    own = _floor(module)
    found = []
    for item in imports(module, source, is_package):
        if not item.name.startswith("edgeopt."):
            continue
        floor = _floor(item.name)
        if floor is not None and own is not None and floor > own:
            found.append(f"{module}:{item.line} imports {item.name}, which stands above it")
    return found


def _floor(module: str) -> int | None:
    room = module.split(".")[1]
    return FLOORS.index(room) if room in FLOORS else None


_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


@functools.cache
def imports(module: str, source: str, is_package: bool = False) -> tuple[Import, ...]:
    """Every import in a module, those by `importlib.import_module("...")` too."""
    found: list[Import] = []
    # Statements hold all imports but those by a call, for which few modules have to be looked through whole.
    kinds = (ast.AST,) if "import_module" in source or "__import__" in source else _STATEMENTS
    names = partial(_names, module=module, is_package=is_package)
    _walk(_parsed(source), kinds, found.append, names, in_function=False, for_types_only=False)
    return tuple(found)


@functools.cache
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _walk(
    node: ast.AST,
    kinds: tuple[type[ast.AST], ...],
    tell: Callable[[Import], None],
    names: Callable[[ast.AST], list[str]],
    in_function: bool,
    for_types_only: bool,
) -> None:
    for name in names(node):
        tell(Import(name, getattr(node, "lineno", 0), in_function, for_types_only))
    in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    types = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else ()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, kinds):
            _walk(child, kinds, tell, names, in_function, for_types_only or child in types)


def _names(node: ast.AST, module: str, is_package: bool) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        home = node.module or ""
        if node.level:
            parents = module.split(".")
            kept = len(parents) - node.level + is_package
            home = ".".join([*parents[:kept], *([home] if home else [])])
        return [f"{home}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = node.args[0].value
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in {"__import__", "import_module"} and isinstance(name, str):
            return [name]
    return []


def _of(table: tuple[tuple[str, tuple[str, ...]], ...], module: str) -> tuple[str, ...] | None:
    return next((entry for part, entry in table if _inside(module, (part,))), None)


def _inside(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def modules() -> list[tuple[str, Path]]:
    found = []
    for package, folder in SOURCES:
        for path in sorted((folder / package).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


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


def test_a_class_has_a_name_of_its_own_in_its_room():
    """A room is a folder of the core, and each command's folder; `Request` is what each of these is asked."""
    homes: dict[tuple[str, str], list[str]] = {}
    for name, path in modules():
        parts = name.split(".")
        if parts[0] != "edgeopt" or len(parts) < 3:
            continue
        room = ".".join(parts[:3] if parts[1] == "commands" else parts[:2])
        for node in ast.walk(_parsed(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault((room, node.name), []).append(name)
    assert {key: found for key, found in homes.items() if len(found) > 1} == {}


def test_an_import_of_a_room_above_is_found():
    assert upward("edgeopt.bundle.read", "from edgeopt.search.optimize import optimize")
    assert upward("edgeopt.measure.rounds", "import edgeopt.commands.bench.bench")
    assert upward("edgeopt.measure.rounds", "def run():\n    from edgeopt.commands.bench import bench")
    assert upward("edgeopt.measure.rounds", "if TYPE_CHECKING:\n    from edgeopt.commands.bench import bench")
    assert not upward("edgeopt.backends.null", "from edgeopt.graph.ledger import Change")


def test_no_files_import_each_other_in_a_circle():
    known = {name for name, _ in modules()}
    wanted = {name: _files(name, path, known) for name, path in modules()}
    TopologicalSorter(wanted).prepare()  # raises with the circle


def _files(module: str, path: Path, known: set[str]) -> set[str]:
    """The files that importing and running a module may load; what is there for types only is not."""
    found = set()
    for item in imports(module, path.read_text(), path.stem == "__init__"):
        home = item.name if item.name in known else item.name.rpartition(".")[0]
        if home in known and home != module and not item.for_types_only:
            found.add(home)
    return found


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
    ("edgeopt.backends.null", "from edgeopt.search.racing.race import race"),
    ("edgeopt.backends.null", "from edgeopt.hw.probe import probe"),
    ("edgeopt.backends.onnxruntime", "import onnxruntime"),
    ("edgeopt.backends.openvino", 'import importlib\nov = importlib.import_module("openvino")'),
    ("edgeopt.errors", "import edgeopt.events"),
    ("edgeopt.events", "import numpy"),
    ("edgeopt.search.racing.race", "from edgeopt.cli.console import execute"),
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
    ("edgeopt.search.racing.race", "from edgeopt.measure.contest import contest\nimport numpy"),
    ("edgeopt.cli.optimize", "from edgeopt.search.optimize import optimize"),
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
    ("edgeopt/measure/terms.py", "TABLE"),
    ("edgeopt/search/making/recipes.py", "RECIPES"),
    ("edgeopt/commands/ops/cases/__init__.py", "FAMILIES"),
    ("edgeopt/cli/main.py", "COMMANDS"),
    ("gui/edgeopt_gui/pages/__init__.py", "PAGES"),
    ("agent/edgeopt_agent/deployments/states.py", "TABLE"),
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
