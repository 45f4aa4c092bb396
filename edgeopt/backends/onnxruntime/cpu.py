"""ONNX Runtime on the CPU."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.base import Coverage, EightBits, installed
from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.opening import open_session, session_options_for
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.onnxruntime.provider import CPU, RUNTIMES, Provider
from edgeopt.backends.onnxruntime.session import RECORD
from edgeopt.errors import MissingExtraError, ModelError

if TYPE_CHECKING:
    from onnx import NodeProto


def cpu_coverage(path: Path, backend: str) -> Coverage:
    """Returns the coverage that the runtime reports; by operator if the runtime refuses to load the model."""
    options = session_options_for(OrtOptions(graph_level="none"), backend)
    options.add_session_config_entry(RECORD, "1")
    try:
        session = open_session(path, options)
    except ModelError as refusal:
        return _by_operator(path, refusal)
    groups = session.get_provider_graph_assignment_info()
    nodes = [(group.ep_name, node) for group in groups for node in group.get_nodes()]
    others = tuple(f"{node.op_type}: {node.name}" for provider, node in nodes if provider != CPU)
    return Coverage(len(nodes) - len(others), len(nodes), others)


def _by_operator(path: Path, refusal: ModelError) -> Coverage:
    """Returns the coverage without unimplemented operators and the node that the runtime's message names."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("optimize", f"Saying which nodes keep {path} from loading") from error
    from google.protobuf.message import DecodeError
    from onnxruntime.capi import onnxruntime_pybind11_state as binding

    try:
        model = onnx.load(path, load_external_data=False)
    except (OSError, DecodeError):
        raise refusal from None
    kernels = {(k.domain, k.op_name) for k in binding.get_all_opkernel_def() if k.provider == CPU}
    functions = {(s.domain, s.name) for s in onnx.defs.get_all_schemas() if s.has_function}
    functions |= {(f.domain, f.name) for f in model.functions}
    nodes = list(model.graph.node)
    named = re.search(r"for (\w+)\(\d+\) node with name '(.*?)'", refusal.message)
    missing = [n for n in nodes if _key(n) not in kernels | functions or (named and _is(n, *named.groups()))]
    if not missing:
        raise refusal
    unsupported = tuple(f"{n.op_type}: {n.name}" for n in missing)
    return Coverage(len(nodes) - len(missing), len(nodes), unsupported)


def _key(node: "NodeProto") -> tuple[str, str]:
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


def _is(node: "NodeProto", op_type: str, name: str) -> bool:
    return bool(node.op_type == op_type and node.name == name)


NAME = "onnxruntime-cpu"
PROVIDER = Provider(
    name=NAME,
    title="ONNX Runtime, CPU",
    key=CPU,
    options=OrtOptions,
    distributions=("onnxruntime",),
    extra="cpu",
    on_processor=True,
    # There is no QLinearConvTranspose.
    eight_bits=EightBits("through", transposed=False),
)

BACKEND = backend_of(
    PROVIDER,
    # Every flavour of the runtime has the CPU provider, so none is imported to find out.
    available=lambda: installed("onnxruntime", RUNTIMES, "cpu"),
    supports=lambda path: cpu_coverage(path, NAME),
)
