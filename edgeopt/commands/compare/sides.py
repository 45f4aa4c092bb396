"""From what the user named to two models that can be run."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Backend, Options, TensorInfo
from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.read import Bundle, is_bundle, read_bundle
from edgeopt.commands.compare.records import Side
from edgeopt.errors import EdgeoptError, InputError, MissingError, UsageError
from edgeopt.hw.device import Unavailable
from edgeopt.measure.isolated_backend import Apart

if TYPE_CHECKING:
    from edgeopt.graph.model import Model

TRIED = ("onnxruntime-cpu", "openvino-cpu")
"""What runs a side for which no backend is named: the first that runs both sides."""


@dataclass(frozen=True, slots=True)
class Named:
    """A model file, and how a bundle runs it."""

    given: Path
    path: Path
    kind: str
    backend: Backend | None = None
    options: "Options | None" = None
    model: "Model | None" = None
    """The graph of an ONNX model."""
    bundle: Bundle | None = None
    """Held, because what was one file lies unpacked as long as it is."""


def named(path: Path, backend: str | None) -> Named:
    """Reads what was named; a bundle runs as it says, unless a backend is named."""
    wanted = backend_named(backend) if backend else None
    if is_bundle(path) or path.suffix == SUFFIX:
        bundle = read_bundle(path)
        run = bundle.deployment.run
        own = wanted or backend_named(run.backend)
        options = run.options if own.name == run.backend else {}
        return Named(path, bundle.model, "bundle", own, options, _graph(bundle.model), bundle)
    if path.suffix == ".xml":
        if not path.exists():
            raise InputError(f"There is no file '{path}'.", "Check the path.")
        return Named(path, path, "OpenVINO IR model", wanted)
    return Named(path, path, "ONNX model", wanted, None, _graph(path))


def _graph(path: Path) -> "Model | None":
    from edgeopt.graph.model import load
    from edgeopt.graph.shapes import infer_shapes

    if path.suffix == ".xml":
        return None
    model = load(path)
    infer_shapes(model.ir)
    return model


def backends_for(first: Named, second: Named, apart: Apart) -> tuple[Backend, Backend]:
    """What runs each side; raises where nothing installed does.

    A model beside a bundle runs in plain ONNX Runtime: in the bundle's own runtime, it would have the same errors.
    """
    if first.backend is not None or second.backend is not None:
        left = first.backend or _common((first,), apart, prefer=_preferred(second))
        right = second.backend or _common((second,), apart, prefer=_preferred(first))
    else:
        left = right = _common((first, second), apart)
    for side, backend in ((first, left), (second, right)):
        if side.path.suffix not in backend.formats:
            raise UsageError(
                f"{backend.title} does not read '{side.path.name}'.", "Give another one with --backend-a or -b."
            )
        found = backend.available()
        if isinstance(found, Unavailable):
            raise MissingError(
                f"{backend.title} is not available: {found.reason}", "List available ones: edgeopt backends"
            )
    return apart.of(left), apart.of(right)


def _preferred(other: Named) -> Backend | None:
    return None if other.bundle is not None else other.backend


def _common(sides: tuple[Named, ...], apart: Apart, prefer: Backend | None = None) -> Backend:
    """The first installed backend that loads all sides."""
    suffixes = {side.path.suffix for side in sides}
    reasons = []
    known = [backend for name in TRIED for backend in BACKENDS if backend.name == name]
    for backend in dict.fromkeys([*([prefer] if prefer else []), *known]):
        found = backend.available()
        if not suffixes <= set(backend.formats):
            continue
        if isinstance(found, Unavailable):
            reasons.append(f"{backend.title} is not available: {found.reason}")
            continue
        try:
            for side in sides:
                apart.of(backend).load(side.path, {}).close()
        except EdgeoptError as error:
            reasons.append(f"{error.message.rstrip('.')}.")
            continue
        return backend
    names = " and ".join(str(side.given) for side in sides)
    raise MissingError(
        f"No installed runtime runs {names}. {' '.join(reasons)}".strip(),
        "List available ones: edgeopt backends",
    )


def described(side: Named, backend: Backend | None, ports: tuple[tuple[TensorInfo, ...], ...] = ((), ())) -> Side:
    operators = _operators(side)
    inputs, outputs = ports
    return Side(
        side.given.name,
        str(side.given),
        side.kind,
        sum(file.stat().st_size for file in _files(side)),
        sum(operators.values()),
        operators,
        inputs,
        outputs,
        backend.title if backend else "",
    )


def _files(side: Named) -> list[Path]:
    if side.path.suffix == ".xml":
        return [file for file in (side.path, side.path.with_suffix(".bin")) if file.exists()]
    return [side.path, *(side.model.external if side.model else ())]


def _operators(side: Named) -> dict[str, int]:
    if side.model is not None:
        from edgeopt.graph.nodes import nodes_of

        counted = Counter(node.op_type for node in nodes_of(side.model.ir))
    else:
        from edgeopt.graph.analysis.openvino_ir import analyze_ir

        counted = Counter({row.operator: row.count for row in analyze_ir(side.path).operators})
    return dict(sorted(counted.items(), key=lambda row: (-row[1], row[0])))
