"""What a bundle says of itself, as a part of its analysis."""

import msgspec

from edgeopt.bundle.deployment import Deployment
from edgeopt.graph.analysis import DeploymentRow


def deployment_row(deployment: Deployment) -> DeploymentRow:
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
        # Times that nobody measured are no part of an analysis; the verdict says what they are.
        predicted = deployment.predicted
        return msgspec.structs.replace(row, verdict=predicted.verdict) if predicted else row
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
