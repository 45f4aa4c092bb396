"""A model loaded by ONNX Runtime."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from edgeopt.backends.base import Array, Feeds, Options, Placement, TensorInfo, closed, prepare, refuse_fallback
from edgeopt.backends.onnxruntime.bound import BoundMemory, BoundRun
from edgeopt.backends.onnxruntime.opening import (
    check_dimensions,
    names_with_shape,
    open_with,
    register_custom_ops,
    runtime_errors,
    session_options_for,
)
from edgeopt.backends.onnxruntime.options import OrtOptions, run_options
from edgeopt.backends.onnxruntime.provider import CPU, Provider
from edgeopt.backends.options import read_options
from edgeopt.backends.protobuf import GRAPH, NODES, numbered_parts, opened, parts, text
from edgeopt.errors import MissingError, ModelError, UsageError, error_text
from edgeopt.platform.freed_memory import give_back

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg, RunOptions

    from edgeopt.backends.onnxruntime.shared_cache import SharedCache

RECORD = "session.record_ep_graph_assignment_info"
"""The session config entry that makes the runtime record the placement of nodes."""

_INPUT, _OUTPUT, _NAME, _OPERATOR = 1, 2, 3, 4  # in NodeProto
_GROUPED, _PASTS, _PRESENTS = "GroupQueryAttention", slice(3, 5), slice(1, 3)
_BRANCHING = ("If", "Loop", "Scan")
_STATE_RANK = 4  # batch, heads, tokens, width
# The runtime appends this to the names of nodes into which it split a node.
_TOKEN = re.compile(r"_token_\d+$")


class PlacedNode(NamedTuple):
    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def placement(session: "InferenceSession", path: Path, requested: str) -> Placement | None:
    """Returns where ONNX Runtime placed the nodes of a model, or None if this version of the runtime does not
    report it.

    The session reports nodes as they were assigned to a provider, before it fused them, and without their inputs
    and outputs, which are read from the file.
    """
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        return None
    assigned = [(group.ep_name, node.name, node.op_type) for group in ask() for node in group.get_nodes()]
    return Placement(
        wanted=requested,
        nodes=dict(Counter(provider for provider, _, _ in assigned)),
        fallen=tuple(f"{op}: {name or 'unnamed'}" for provider, name, op in assigned if provider != requested),
        boundaries=boundaries(file_nodes(path), assigned),
    )


def boundaries(nodes: Iterable[PlacedNode], assigned: list[tuple[str, str, str]]) -> int:
    """Counts the values that one provider computed and another reads; feeds and results are not counted.

    A node without a name is placed with the other nodes of its operator if these are all on one provider. A node
    in neither list, such as a folded constant, is placed with the producer of its first input.
    """
    by_name = {_TOKEN.sub("", name): provider for provider, name, _ in assigned if name}
    operators = defaultdict(set)
    for provider, _, operator in assigned:
        operators[operator].add(provider)
    by_operator = {operator: min(found) for operator, found in operators.items() if len(found) == 1}
    made_by: dict[str, str] = {}
    crossings = set()
    for node in nodes:
        provider = by_name.get(node.name, "") if node.name else by_operator.get(node.operator, "")
        if not provider:
            provider = next((made_by[value] for value in node.inputs if value in made_by), "")
        else:
            crossings |= {(v, provider) for v in node.inputs if made_by.get(v, provider) != provider}
        if provider:
            made_by.update(dict.fromkeys(node.outputs, provider))
    return len(crossings)


def file_nodes(path: Path) -> list[PlacedNode]:
    """Returns the nodes of the main graph in the order of the file, which is the order of execution in ONNX."""
    with opened(path) as data:
        found = []
        for graph in parts(data, (0, len(data)), (GRAPH,)):
            for span in parts(data, graph, (NODES,)):
                fields: dict[int, list[str]] = defaultdict(list)
                for number, begin, end in numbered_parts(data, span, (_INPUT, _OUTPUT, _NAME, _OPERATOR)):
                    fields[number].append(text(data, (begin, end)))
                name, operator = (fields[number][0] if fields[number] else "" for number in (_NAME, _OPERATOR))
                found.append(PlacedNode(name, operator, tuple(fields[_INPUT]), tuple(fields[_OUTPUT])))
        return found


_DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(string)": "str",
    **{f"tensor({n})": n for n in ("float16", "bool", "int8", "int16", "int32", "int64")},
    **{f"tensor({n})": n for n in ("uint8", "uint16", "uint32", "uint64")},
}


class OrtSession:
    """A session that is safe to use from several threads, which run in parallel."""

    def __init__(
        self,
        session: "InferenceSession",
        inputs: tuple[TensorInfo, ...],
        outputs: tuple[TensorInfo, ...],
        placement: Placement | None = None,
        run: BoundRun | None = None,
        run_options: "RunOptions | None" = None,
        path: Path | None = None,
    ) -> None:
        """`path` is that of a model whose states may stay in the runtime: on the CPU, without bound memory."""
        import numpy as np

        self._session: InferenceSession | None = session
        self._path = path
        self._nodes: list[PlacedNode] | None = None
        """Nodes of the file, read when a decoder first generates; an empty list where the file is gone."""
        self.inputs = inputs
        self.outputs = outputs
        self.placement = placement
        self._options = run_options
        self._names = [info.name for info in outputs]
        # This call is below InferenceSession.run, which spends a quarter of a small call on its own checks.
        self._run: Any = run or session._sess.run
        self._errors = runtime_errors()
        # Strings have no single dtype, so they never match and always take the checked path.
        self._dtypes = [(i.name, None if i.dtype == "str" else np.dtype(i.dtype)) for i in inputs]
        self._scalars = [info.name for info in inputs if info.rank_known and not info.shape]

    def run(self, feeds: Feeds) -> dict[str, Array]:
        try:
            # The runtime silently accepts and computes wrong: another byte order, a missing input (as if it were
            # optional), and any shape instead of a single number.
            for name, dtype in self._dtypes:
                if feeds[name].dtype is not dtype:
                    return self._run_checked(feeds)
            for name in self._scalars:
                if feeds[name].shape:
                    return self._run_checked(feeds)
            if len(feeds) != len(self._dtypes):
                return self._run_checked(feeds)
            return dict(zip(self._names, self._run(self._names, feeds, self._options), strict=True))
        except self._errors:
            return self._run_checked(feeds)

    def shared_cache(self, pairs: Mapping[str, str]) -> "SharedCache | None":
        """Returns a new sequence whose states stay in the runtime; None where they must be fed at each step."""
        from edgeopt.backends.onnxruntime.shared_cache import SharedCache

        states = [info for info in self.inputs if info.name in pairs]
        if self._session is None or self._path is None:
            return None
        if self._nodes is None:
            try:
                self._nodes = file_nodes(self._path)
            except (OSError, ValueError):  # it was removed or replaced after it was loaded
                self._nodes = []
        known = all(len(each.shape) == _STATE_RANK and _is_sized(each.shape[1::2]) for each in states)
        if not known or not _shares_cache(self._nodes, pairs):
            return None
        return SharedCache(lambda: self._session, states, pairs, self._names, self._options)

    def close(self) -> None:
        self._run = self._session = None
        give_back()

    def _run_checked(self, feeds: Feeds) -> dict[str, Array]:
        run = self._run
        if run is None:
            raise closed()
        arrays = prepare(self.inputs, feeds)
        try:
            return dict(zip(self._names, run(self._names, arrays, self._options), strict=True))
        except self._errors as error:
            raise ModelError(
                f"ONNX Runtime could not run the model: {error_text(error)}",
                "Check the values and the named dimensions of the data against the model.",
            ) from error


def _shares_cache(nodes: Sequence[PlacedNode], pairs: Mapping[str, str]) -> bool:
    """Whether grouped attention alone reads and writes these states.

    It takes the number of valid tokens from elsewhere, so a longer buffer means the same to it. Any other node
    that reads a state would see the buffer's length.
    """
    attention = [node for node in nodes if node.operator == _GROUPED]
    own = {pair for node in attention for pair in zip(node.inputs[_PASTS], node.outputs[_PRESENTS], strict=False)}
    if not pairs or set(pairs.items()) != own or any(node.operator in _BRANCHING for node in nodes):
        return False
    reads = [name for node in nodes for name in node.inputs if name in pairs or name in pairs.values()]
    return len(reads) == len(pairs)


def _is_sized(heads_and_width: Iterable[int | str | None]) -> bool:
    return all(isinstance(size, int) for size in heads_and_width)


def load_session(
    provider: Provider, path: Path, options: Options, strict: bool, custom_ops: tuple[str, ...]
) -> OrtSession:
    chosen = read_options(provider.options, options, provider.name)
    if chosen.arena_shrink and provider.graph(chosen):
        raise UsageError(
            f"The option 'arena_shrink' of {provider.name} gives back memory that a recorded graph works in.",
            "Leave out one of the two.",
        )
    made = session_options_for(chosen, provider.name)
    check_dimensions(path, chosen, provider.name)
    register_custom_ops(custom_ops, made)
    if provider.key != CPU:
        made.add_session_config_entry(RECORD, "1")
    session = open_with(provider, path, chosen, made)
    found = None if provider.key == CPU else placement(session, path, provider.key)
    if strict:
        _refuse(provider, found, path)
    known = frozenset[str]()
    if any(not info.shape for info in (*session.get_inputs(), *session.get_outputs())):
        known = names_with_shape(path)
    inputs = tuple(_tensor_info(info, known, path) for info in session.get_inputs())
    outputs = tuple(_tensor_info(info, known, path) for info in session.get_outputs())
    run = _bound_run(provider, session, chosen, (*inputs, *outputs))
    shared = path if provider.key == CPU and run is None else None
    return OrtSession(session, inputs, outputs, found, run, run_options(chosen, provider.gpu(chosen)), shared)


def _refuse(provider: Provider, found: Placement | None, path: Path) -> None:
    if found is None and provider.key != CPU:
        raise MissingError(
            "This version of ONNX Runtime does not tell where the nodes run, so nothing can be strict.",
            "Install ONNX Runtime 1.24 or later.",
        )
    refuse_fallback(found, path)


def _bound_run(
    provider: Provider, session: "InferenceSession", options: OrtOptions, ports: tuple[TensorInfo, ...]
) -> BoundRun | None:
    """Returns a run with bound memory, or None if the runtime moves the data, as it must for strings."""
    memory = provider.memory(options) or (BoundMemory("cpu") if options.io_binding else None)
    if memory is None or any(port.dtype == "str" for port in ports):
        return None
    return BoundRun(session, memory, provider.graph(options), run_options(options, provider.gpu(options)))


def _tensor_info(info: "NodeArg", known: frozenset[str], path: Path) -> TensorInfo:
    dtype = _DTYPES.get(info.type)
    if dtype is None:
        raise ModelError(
            f"'{info.name}' of the model {path} is a {info.type}, which ONNX Runtime cannot pass to Python.",
            "Convert it inside the model to a tensor of a plain type.",
        )
    return TensorInfo(info.name, dtype, tuple(info.shape), bool(info.shape) or info.name in known)
