"""The user's own rewrites: a Python file of rules in onnxscript's form, each a pass like the built-in ones.

A file holds either `RULES`, a list of onnxscript's `RewriteRule`s (or what its rule classes' `rule()` gives), or
one rule as three functions in the operators' own words:

    def pattern(op, x):            the pattern; arguments match any value
        return op.Mul(x, op.Sigmoid(x))

    def check(context, x):         optional: whether it may be replaced; `MatchResult().fail("why")` says why not
        return True

    def replacement(op, x):        the replacement
        return op.Swish(x)

`NAME` and `TITLE` are its name and title in the ledger and in `edgeopt passes`. The file runs as Python code.
"""

import sys
import traceback
import types
from collections.abc import Collection, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.errors import InputError, MissingExtraError
from edgeopt.graph.passes.algebra.rewrite_patterns import SAYS_NOTHING, WhyNot
from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, adopt_orphans, label, nodes_of, quiet

if TYPE_CHECKING:
    import onnx_ir as ir
    from onnxscript.rewriter import RewriteRule

HOW = "A rules file contains RULES = [RewriteRule(...), ...], or the functions pattern and replacement."
TOLERANCE_DB = 80.0


def load_rules(path: Path) -> tuple[Pass, ...]:
    """Loads the rules of a file as passes named `FILE:RULE`; raises InputError if it is invalid."""
    try:
        from onnxscript.rewriter import RewriteRule, RewriteRuleSet
    except ImportError:
        raise MissingExtraError("optimize", "Running rules of your own") from None
    names = _run(path)
    if "RULES" in names:
        found = names["RULES"]
        if isinstance(found, RewriteRuleSet):
            found = found.rules
        if not isinstance(found, list | tuple) or not all(isinstance(rule, RewriteRule) for rule in found):
            raise InputError(f"RULES in '{path.name}' is not a list of onnxscript's RewriteRule objects.", HOW)
        rules = list(found)
    elif callable(names.get("pattern")) and callable(names.get("replacement")):
        rules = [_one(path, names)]
    else:
        raise InputError(f"'{path.name}' contains no rules.", HOW)
    if not rules:
        raise InputError(f"RULES in '{path.name}' is empty.", HOW)
    titles = [rule.name or f"rule-{number}" for number, rule in enumerate(rules, 1)]
    title = str(names.get("TITLE", "a rule of your own"))
    return tuple(
        _as_pass(path, f"{path.stem}:{name}{_number(titles, place)}", title, rule)
        for place, (name, rule) in enumerate(zip(titles, rules, strict=True))
    )


def _number(names: list[str], place: int) -> str:
    """Returns the suffix of a repeated rule name: `-2` for the second rule of a name; empty for the first."""
    before = names[:place].count(names[place])
    return f"-{before + 1}" if before else ""


def _run(path: Path) -> Mapping[str, Any]:
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"The rules file '{path}' cannot be read: {error.strerror}.", "Check the path of --rules."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"The rules file '{path}' is not UTF-8 text.", HOW) from error
    # Registers the module, because onnxscript and dataclasses look it up.
    module = types.ModuleType(f"edgeopt_rules_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - running it is what --rules asks for
    except SyntaxError as error:
        raise InputError(f"'{path.name}' is not valid Python: line {error.lineno}: {error.msg}.", HOW) from error
    except Exception as error:  # whatever the user's code raises
        raise InputError(f"The rules in '{path.name}' failed{_place(error, path)}.", HOW) from error
    return module.__dict__


def _one(path: Path, names: Mapping[str, Any]) -> "RewriteRule":
    from onnxscript.rewriter import RewriteRule

    try:
        return RewriteRule(
            names["pattern"], names["replacement"], names.get("check"), name=str(names.get("NAME", "rule"))
        )
    except Exception as error:  # the pattern is traced here, with the user's code
        raise InputError(f"The pattern in '{path.name}' failed{_place(error, path)}.", HOW) from error


def _as_pass(path: Path, name: str, title: str, rule: "RewriteRule") -> Pass:
    def apply(model: "ir.Model", context: PassContext) -> PassResult:
        try:
            return _rewritten(model, context, rule)
        except Exception as error:
            raise InputError(f"the rule in '{path.name}'{_place(error, path)}", HOW) from error

    return Pass(name, title, apply, tolerance_db=TOLERANCE_DB)


def _rewritten(model: "ir.Model", context: PassContext, rule: "RewriteRule") -> PassResult:
    from onnx_ir.passes import common
    from onnxscript.rewriter import RewriteRuleSet

    model, notes = context.copy(model), Notes()
    before = {node: label(node) for node in nodes_of(model)}
    with quiet():
        count = RewriteRuleSet([_only_on(before, rule)]).apply_to_model(model)
        if count:
            adopt_orphans(model)
            common.RemoveUnusedNodesPass()(model)
            common.NameFixPass()(model)
            left = set(nodes_of(model))
            gone = [name for node, name in before.items() if node not in left]
            notes.did(f"replaced {count} {'match' if count == 1 else 'matches'}", *gone)
        # With a tracer, rules only match; works on a copy, because matching may still add opset imports.
        RewriteRuleSet([rule]).apply_to_model(model.clone(), tracer=_why_not(notes))
    return notes.result(model)


def _only_on(nodes: "Collection[ir.Node]", rule: "RewriteRule") -> "RewriteRule":
    """Restricts a rule to existing nodes, because onnxscript never ends if the replacement contains the
    pattern."""
    bounded = copy(rule)

    def try_rewrite(model: "ir.Model", container: object, node: "ir.Node", **more: object) -> object:
        return rule.try_rewrite(model, container, node, **more) if node in nodes else None

    bounded.try_rewrite = try_rewrite
    return bounded


def _why_not(notes: Notes) -> WhyNot:
    def tell(reason: str, node: str) -> None:
        notes.refuse("its check failed" if reason in SAYS_NOTHING else reason, node)

    return WhyNot(tell)


def _place(error: BaseException, path: Path) -> str:
    """Formats ` in line 7: NameError: ...` with the last executed line of the user's file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    where = f" in line {lines[-1]}" if lines else ""
    return f"{where}: {type(error).__name__}: {error}".rstrip(".")
