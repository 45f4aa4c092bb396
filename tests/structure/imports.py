"""Every module of the core, the agent and the app, and what each of them imports, read from syntax trees."""

import ast
import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (("edgeopt", ROOT), ("edgeopt_agent", ROOT / "agent"), ("edgeopt_gui", ROOT / "gui"))


@dataclass(frozen=True)
class Import:
    name: str
    line: int
    in_function: bool
    for_types_only: bool


_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


@functools.cache
def imports(module: str, source: str, is_package: bool = False) -> tuple[Import, ...]:
    """Every import in a module, those by `importlib.import_module("...")` too."""
    found: list[Import] = []
    # Statements hold all imports but those by a call, for which few modules have to be looked through whole.
    kinds = (ast.AST,) if "import_module" in source or "__import__" in source else _STATEMENTS
    names = partial(_names, module=module, is_package=is_package)
    _walk(parsed(source), kinds, found.append, names, in_function=False, for_types_only=False)
    return tuple(found)


@functools.cache
def parsed(source: str) -> ast.Module:
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


def modules() -> list[tuple[str, Path]]:
    found = []
    for package, folder in SOURCES:
        for path in sorted((folder / package).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found
