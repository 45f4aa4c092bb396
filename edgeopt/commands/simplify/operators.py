"""Operator optimization for scripts: the same work as `edgeopt analyze` and `edgeopt simplify`, as three calls.

optimizer = edgeopt.OperatorOptimizer("model.onnx", target="cpu_avx2", config={"skip": ["raise-opset"]})
analysis = optimizer.analyze_model()
result = optimizer.apply_optimizations("small.onnx")
optimizer.save_optimization_metadata("small.json")
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgeopt.commands.simplify.request import Request
from edgeopt.commands.simplify.simplify import Simplified, simplify
from edgeopt.errors import UsageError
from edgeopt.keywords import read
from edgeopt.nearest import near

if TYPE_CHECKING:
    from edgeopt.graph.analysis import Analysis

Config = Mapping[str, Any]
_NOT_SET = frozenset({"model", "out", "ledger", "shape", "no_verify"})
SETTABLE = (*(name for name in Request.__struct_fields__ if name not in _NOT_SET), "shapes", "verify")
"""Options of `edgeopt simplify`; `shapes` are sizes by input, `verify` is the contrary of `--no-verify`."""


class Metadata(msgspec.Struct, frozen=True):
    """What `save_optimization_metadata` writes."""

    target: str | None
    result: Simplified


def optimize_operators(model_path: str | Path, output_path: str | Path, target: str | None = None) -> Simplified:
    """Applies the graph rewrites of a target (of none: the default ones), proves the result and writes it."""
    return OperatorOptimizer(model_path, target).apply_optimizations(output_path)


class OperatorOptimizer:
    """One model and how its operators are to be optimized; `config` holds options of `edgeopt simplify`."""

    def __init__(self, model: str | Path, target: str | None = None, config: Config | None = None) -> None:
        self.model = Path(model)
        self.target = None if target is None else target.replace("_", "-")
        self.config = _checked(config or {})
        self._passes = _passes_of(self.target) if self.target is not None else ()
        self._result: Simplified | None = None

    def analyze_model(self) -> "Analysis":
        """What the model is made of: what `edgeopt analyze` shows."""
        from edgeopt.commands.analyze.analyze import analyze

        return analyze(self.model)

    def apply_optimizations(self, path: str | Path) -> Simplified:
        """Writes the optimized model; the ledger in what it returns tells what was done, and why not."""
        given = {"only": self._passes, **self.config, "model": self.model, "out": path}
        shapes, verify = given.pop("shapes", None) or {}, given.pop("verify", True)
        given["shape"] = [f"{name}={'x'.join(map(str, sizes))}" for name, sizes in shapes.items()]
        self._result = simplify(read(Request, {**given, "no_verify": not verify}))
        return self._result

    def save_optimization_metadata(self, path: str | Path) -> None:
        """Writes the target, the ledger and the proof of what was applied last, as JSON."""
        from edgeopt.measure.files import writing

        if self._result is None:
            raise UsageError("Nothing has been optimized yet.", "Call apply_optimizations first.")
        text = msgspec.json.format(msgspec.json.encode(Metadata(self.target, self._result)), indent=2)
        with writing(Path(path)) as file:
            file.write(text + b"\n")


def _checked(config: Config) -> Config:
    for name in config:
        if name not in SETTABLE:
            meant = near(name, SETTABLE, alike=0.0)[0]
            raise UsageError(
                f"There is no setting '{name}'; did you mean '{meant}'?",
                f"The config takes: {', '.join(SETTABLE)}.",
            )
    return config


def _passes_of(target: str) -> tuple[str, ...]:
    """The passes that a target's profile names; none where it takes the default ones."""
    from edgeopt.profiles import resolve, shipped_path, shipped_profiles

    path = shipped_path(target)
    if path is None:
        names = [profile.name for profile in shipped_profiles()]
        meant = near(target, names, alike=0.0)[0]
        raise UsageError(f"There is no target '{target}'; did you mean '{meant}'?", "`edgeopt targets` lists all.")
    passes = resolve(path).profile.graph.passes
    return () if isinstance(passes, str) else tuple(passes)
