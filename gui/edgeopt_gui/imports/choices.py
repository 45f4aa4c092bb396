"""The choices of an import, their defaults, and the resulting command line."""

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edgeopt.importing.sources import Source, source_of
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending

TITLES = {
    "--trust": "Trust its author",
    "--python": "Python",
    "--data": "Data",
    "--shape": "Shapes",
    "--dynamic": "Open dimensions",
    "--task": "Task",
}
"""The fields of the dialog, by their options of the command line."""
_ENVIRONMENTS = (".venv", "venv", "env")
_MAX_FOLDERS = 4
_LARGEST_SCRIPT_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ImportChoices:
    source: str = ""
    """A file, a folder, or code: `net.py:Net`."""
    out: str = ""
    python: str = ""
    """Path of the Python interpreter; "" for edgeopt's own."""
    trust: bool = False
    data: str = ""
    """Path of the sample data; "" to generate it."""
    shapes: str = ""
    """Shapes of the inputs, separated by spaces."""
    dynamic: str = ""
    task: str = ""

    @property
    def kind(self) -> Source | None:
        return source_of(self.source)

    @property
    def name(self) -> str:
        return Path(self.source).name

    @property
    def samples(self) -> Path:
        """The .npz file with samples that the import writes beside the model."""
        return Path(self.out).with_suffix(".npz")

    @property
    def has_place(self) -> bool:
        return Path(self.out).suffix == ".onnx"

    @property
    def problem(self) -> str:
        """The reason why the import cannot start, as a sentence; "" if it can."""
        kind, path = self.kind, Path(self.source)
        if not self.source:
            return "Choose a model."
        if kind is None and path.suffix == ".py" and path.is_file():
            return "Name the class, instance or function in the file."
        if kind is None:
            return f"{path.name} is not a model that can be imported."
        if kind.pickled and not self.trust:
            return f"{path.name} is a pickle: opening it can run any code. Continue only if you trust its author."
        if not self.has_place:
            return "The model to write ends in .onnx."
        return ""

    @property
    def command(self) -> Command:
        flags = [("-o", self.out), ("--python", self.python), ("--data", self.data)]
        flags += [("--shape", shape) for shape in self.shapes.split()]
        flags += [("--dynamic", self.dynamic.replace(" ", "")), ("--task", self.task)]
        options = [word for flag, value in flags if value for word in (flag, value)]
        trust = ["--trust"] if self.trust else []
        return Command(f"Importing {self.name}", ("import", self.source, *options, *trust))


def choices_for(source: str, python: str, data: Path | None = None) -> ImportChoices:
    """Returns choices with defaults found beside the source; `python` is the fallback interpreter."""
    found = ImportChoices(source, data=str(data or ""), python=python_beside(source) or python)
    return replace(found, out=place_for(source)) if source else found


def place_for(source: str) -> str:
    """Returns the path of the model to write: beside the source, or in the home folder if that is read-only."""
    file, colon, name = source.rpartition(":")
    path = Path(file if colon and source_of(source) and not Path(source).exists() else source)
    if not path.exists():  # a module
        return str(Path.home() / f"{name.rpartition('.')[2]}.onnx")
    stem = path.name if path.is_dir() else path.stem
    folder = path.absolute().parent
    return str((folder if os.access(folder, os.W_OK) else Path.home()) / f"{stem}.onnx")


def python_beside(source: str) -> str:
    """Returns the Python of a virtual environment in a folder above the source; "" if there is none."""
    for folder in [*Path(source).absolute().parents][:_MAX_FOLDERS]:
        for name in _ENVIRONMENTS:
            for python in (folder / name / "bin" / "python", folder / name / "Scripts" / "python.exe"):
                if python.is_file():
                    return str(python)
    return ""


def names_in(script: Path) -> tuple[str, ...]:
    """Returns public names at the top level of a Python file that may be a model, without running the file."""
    try:
        if script.stat().st_size > _LARGEST_SCRIPT_BYTES:
            return ()
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(dict.fromkeys(name for each in tree.body for name in _names(each) if not name.startswith("_")))


def _names(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef():
            yield node.name
        case ast.FunctionDef():
            arguments = node.args
            if len(arguments.args) + len(arguments.posonlyargs) == len(arguments.defaults):
                yield node.name
        case ast.Assign():
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def ending_in_the_app(ending: Ending) -> Ending:
    """Returns the ending with options replaced by the names of the dialog's fields."""
    what, next_step = ending.what, ending.next_step
    for flag, title in TITLES.items():
        what, next_step = (text.replace(flag, f"'{title}'") for text in (what, next_step))
    return replace(ending, what=what, next_step=next_step)
