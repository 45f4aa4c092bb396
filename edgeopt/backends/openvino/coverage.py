"""Which nodes of a model one of OpenVINO's devices runs, counted after OpenVINO's own conversion."""

from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.base import Coverage
from edgeopt.backends.openvino.model import core, read_model
from edgeopt.backends.openvino.placement import NO_WORK
from edgeopt.errors import ModelError

if TYPE_CHECKING:
    from openvino import Node


def device_coverage(path: Path, device: str) -> Coverage:
    try:
        model = read_model(path)
    except ModelError as refusal:
        return _unconverted(path, refusal)
    known = core().query_model(model, device)
    nodes = [op for op in model.get_ops() if op.get_type_name() not in NO_WORK]
    missing = tuple(f"{op.get_type_name()}: {_name(op)}" for op in nodes if _name(op) not in known)
    return Coverage(len(nodes) - len(missing), len(nodes), missing)


def _unconverted(path: Path, refusal: ModelError) -> Coverage:
    """The nodes that OpenVINO leaves as they are when asked to convert what it can."""
    if path.suffix != ".onnx" or not path.is_file():
        raise refusal
    from openvino import frontend as binding

    manager = binding.FrontEndManager()
    frontend = manager.load_by_framework("onnx")
    try:
        model = frontend.convert_partially(frontend.load(str(path)))
    except (
        RuntimeError,
        binding.GeneralFailure,
        binding.NotImplementedFailure,
        binding.OpConversionFailure,
        binding.OpValidationFailure,
    ):
        raise refusal from None
    nodes = [op for op in model.get_ops() if op.get_type_name() not in NO_WORK]
    left = [op for op in nodes if "FrameworkNode" in op.get_type_name() or "ONNXNode" in op.get_type_name()]
    if not left:
        raise refusal
    labels = _labels(path)
    missing = tuple(labels.get(_name(op), f"unknown operator: {_name(op)}") for op in left)
    return Coverage(len(nodes) - len(missing), len(nodes), missing)


def _name(op: "Node") -> str:
    return str(op.get_friendly_name())


def _labels(path: Path) -> dict[str, str]:
    """What to call a node, by any of its names; asking OpenVINO's own node crashes the process (2026.4)."""
    try:
        import onnx
    except ImportError:
        return {}
    nodes = onnx.load(path, load_external_data=False).graph.node
    return {name: f"{n.op_type}: {n.name or name}" for n in nodes for name in (n.name, *n.output) if name}
