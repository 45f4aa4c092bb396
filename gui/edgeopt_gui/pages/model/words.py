"""An analysis in words: the headline, the facts of a model, of a bundle's deployment and of one node."""

from collections.abc import Callable, Iterator

from edgeopt import units
from edgeopt.graph.analysis import Analysis, DeploymentRow, NodeRow, OperatorRow, ProvedOutput, TensorFacts
from edgeopt.views.imports import import_facts
from edgeopt.views.words import dimensions
from edgeopt_gui.pages.model import work
from edgeopt_gui.pages.model.language_model import language_text
from edgeopt_gui.pages.model.links import NO_LINKS, Links
from edgeopt_gui.widgets.bars import Bar
from edgeopt_gui.widgets.fact import Fact, FactGroup

_MAX = 12
"""The most tensors or files listed one by one; a Concat can have hundreds of inputs."""
_MAX_PORTS = 4
_DIGEST_LETTERS = 12


def headline(analysis: Analysis) -> str:
    """Returns a line with the format, size and number of parameters and nodes of a model."""
    opset = analysis.opsets.get("")
    parts = [
        f"{analysis.format}, opset {opset}" if opset else analysis.format,
        units.size(analysis.size_bytes),
        f"{units.short_count(analysis.parameters)} parameters",
        units.count(analysis.nodes_count, "node"),
    ]
    return " · ".join(["Bundle", *parts] if analysis.kind == "bundle" else parts)


def summary(analysis: Analysis) -> tuple[FactGroup, ...]:
    facts = [fact for fact in _facts(analysis) if fact.value]
    found = [FactGroup("Model", tuple(facts)), work.run_facts(analysis), *_ports(analysis)]
    if analysis.imported is not None:
        facts = [Fact(name, value) for name, value in import_facts(analysis.imported)]
        found.insert(0, FactGroup("Import", tuple(facts)))
    if analysis.deployment is not None:
        found[:0] = [_deployment(analysis.deployment), *_proved_outputs(analysis.deployment)]
    return tuple(found)


def bars(analysis: Analysis) -> tuple[Bar, ...]:
    """Returns the operators as bars, the most frequent first."""
    return tuple(
        Bar(
            operator_key(row.operator, row.domain),
            operator_key(row.operator, row.domain),
            row.count,
            units.count(row.count),
            _bar_tip(row, analysis.nodes_count),
        )
        for row in analysis.operators
    )


def operator_key(operator: str, domain: str) -> str:
    """Returns `Conv` for an operator of ONNX, else `com.microsoft.FusedConv`."""
    return f"{domain}.{operator}" if domain else operator


def node_facts(node: NodeRow, links: Links = NO_LINKS) -> tuple[FactGroup, ...]:
    """Returns the facts of a node, with links from its tensors to the nodes that produce and read them."""
    facts = [
        Fact("Operator", operator_key(node.operator, node.domain)),
        Fact("Name", node.name or "none"),
        Fact("Inside", node.inside),
        *work.node_facts(node),
        *_tensors("Input", node.inputs, links.of_input),
        *_tensors("Output", node.outputs, links.of_output),
        Fact("Weights", _node_weights(node)),
        *(Fact(name, value) for name, value in node.attributes.items()),
    ]
    return (FactGroup("", tuple(fact for fact in facts if fact.value)),)


def tensor_text(tensor: TensorFacts) -> str:
    return f"{tensor.name or 'left out'}  ·  {tensor.dtype or '?'}  {dimensions(tensor.shape)}"


def _facts(analysis: Analysis) -> Iterator[Fact]:
    opsets = ", ".join(f"{domain} {version}" for domain, version in analysis.opsets.items() if domain)
    ir = f", IR version {analysis.ir_version}" if analysis.ir_version is not None else ""
    opset = f", opset {analysis.opsets['']}" if "" in analysis.opsets else ""
    yield Fact("Format", f"{analysis.format}{opset}{ir}")
    yield Fact("Other opsets", opsets)
    yield Fact("Language model", language_text(analysis))
    yield Fact("Made by", analysis.producer)
    yield Fact("Size", units.size(analysis.size_bytes))
    for file in analysis.external_files[:_MAX]:
        yield Fact("External data", f"{file.name}, {units.size(file.size_bytes)}")
    if len(analysis.external_files) > _MAX:
        yield Fact("", f"and {units.count(len(analysis.external_files) - _MAX, 'more file')}")
    yield Fact(
        "Weights", f"{units.size(analysis.weights_bytes)} in {units.count(analysis.weights_count, 'tensor')}"
    )
    yield Fact("Parameters", units.count(analysis.parameters))
    yield Fact("Nodes", f"{units.count(analysis.nodes_count)} of {units.count(len(analysis.operators), 'type')}")
    yield Fact("Functions", units.count(analysis.functions_count) if analysis.functions_count else "")
    yield Fact("SHA-256", f"{analysis.digest[:_DIGEST_LETTERS]}…", copy=analysis.digest)


def _ports(analysis: Analysis) -> Iterator[FactGroup]:
    for title, tensors in (("Inputs", analysis.inputs), ("Outputs", analysis.outputs)):
        facts = [Fact(each.name, f"{each.dtype or '?'} {dimensions(each.shape)}") for each in tensors[:_MAX_PORTS]]
        if len(tensors) > _MAX_PORTS:
            facts.append(Fact("", f"and {units.count(len(tensors) - _MAX_PORTS)} more"))
        yield FactGroup(title, tuple(facts))


def _deployment(deployment: DeploymentRow) -> FactGroup:
    options = tuple(f"{name} = {value}" for name, value in deployment.options.items())
    facts = [
        Fact("Result", deployment.summary),
        Fact("Proof", _proof(deployment)),
        Fact("Runs with", deployment.backend),
        Fact("Options", ", ".join(options), words=options),
        Fact("Target", deployment.target),
        Fact("Made from", f"{deployment.source}, {deployment.created[:10]}"),
    ]
    return FactGroup("Deployment", tuple(fact for fact in facts if fact.value))


def _proved_outputs(deployment: DeploymentRow) -> Iterator[FactGroup]:
    """Yields the accuracy of each output; not for a single output, as that is the bundle's accuracy."""
    outputs = deployment.outputs
    if len(outputs) < 2:
        return
    facts = [Fact(each.name, _accuracy(each)) for each in outputs[:_MAX]]
    if len(outputs) > _MAX:
        facts.append(Fact("", f"and {units.count(len(outputs) - _MAX)} more"))
    yield FactGroup("Accuracy by output", tuple(facts))


def _accuracy(output: ProvedOutput) -> str:
    if output.counted:
        return f"{units.percent(output.agreement)} equal"
    from edgeopt.graph.accuracy import decibels  # with it comes numpy, after the first window

    return "unknown" if output.snr_db is None else decibels(output.snr_db)


def _proof(deployment: DeploymentRow) -> str:
    if deployment.speedup_low is None or deployment.speedup_high is None:
        return "none: written without a measurement"
    parts = [units.speedup_text(deployment.speedup or 0.0, deployment.speedup_low, deployment.speedup_high)]
    if deployment.accuracy_db is not None:
        floor = f" where {deployment.floor_db:.0f} dB are required" if deployment.floor_db is not None else ""
        from edgeopt.graph.accuracy import decibels  # with it comes numpy, after the first window

        parts.append(f"{decibels(deployment.accuracy_db)}{floor}")
    return ", ".join(parts)


def _tensors(title: str, tensors: tuple[TensorFacts, ...], link: Callable[[str], str]) -> Iterator[Fact]:
    for tensor in tensors[:_MAX]:
        yield Fact(title, tensor_text(tensor), link=link(tensor.name))
    if len(tensors) > _MAX:
        yield Fact(title, f"and {units.count(len(tensors) - _MAX)} more")


def _node_weights(node: NodeRow) -> str:
    if not node.weights_bytes:
        return "none"
    return f"{units.size(node.weights_bytes)}, {units.count(node.parameters, 'parameter')}"


def _bar_tip(row: OperatorRow, nodes: int) -> str:
    weights = f", {units.size(row.weights_bytes)} of weights" if row.weights_bytes else ""
    share = f"{units.percent(row.count / nodes, 0)} of all" if nodes else "none"
    return f"{operator_key(row.operator, row.domain)}: {units.count(row.count, 'node')}, {share}{weights}"
