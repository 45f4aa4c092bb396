"""What a model or a bundle is made of: `edgeopt analyze`."""

from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import Deployment
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.analysis import Analysis, DeploymentRow


def analyze(path: str | Path, emit: Emit = ignore) -> Analysis:
    """Looks at a model, or at the model of a bundle and what the bundle says of it; nothing is run."""
    path = Path(path)
    if not is_bundle(path) and path.suffix != ".edgeopt":
        emit(Progress("reading the model", path.name))
        return _model(path)
    emit(Progress("checking digests", path.name))
    bundle = read_bundle(path)
    emit(Progress("reading the model", bundle.model.name))
    return msgspec.structs.replace(
        _model(bundle.model),
        name=path.name,
        path=str(path),
        kind="bundle",
        deployment=_deployment(bundle.deployment),
    )


def _model(path: Path) -> Analysis:
    if path.suffix == ".xml":
        from edgeopt.graph.analysis.openvino_ir import analyze_ir

        return analyze_ir(path)
    from edgeopt.graph.analysis.onnx import analyze_onnx

    return analyze_onnx(path)


def _deployment(deployment: Deployment) -> DeploymentRow:
    evidence = deployment.evidence
    row = DeploymentRow(
        deployment.name,
        deployment.created,
        deployment.target,
        deployment.run.backend,
        deployment.run.options,
        deployment.source.name,
        deployment.summary,
    )
    if evidence is None:
        return row
    return msgspec.structs.replace(
        row,
        verdict=evidence.verdict,
        speedup=evidence.speedup,
        speedup_low=evidence.speedup_low,
        speedup_high=evidence.speedup_high,
        latency_ms=evidence.latency_ms,
        accuracy_db=evidence.accuracy_db,
        floor_db=evidence.floor_db,
    )
