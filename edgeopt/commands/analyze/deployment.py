"""What a bundle says of itself, as a part of its analysis."""

from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import Deployment
from edgeopt.graph.analysis import DeploymentRow, ProvedOutput

_EVIDENCE = "evidence.json"
_LARGEST_BYTES = 64 << 20


class _Proof(msgspec.Struct, frozen=True):
    outputs: tuple[ProvedOutput, ...] = ()


class _Evidence(msgspec.Struct, frozen=True):
    """What all records of a proof have in common; reading all of one takes the whole search's modules."""

    proof: _Proof | None = None


def proved_outputs(folder: Path) -> tuple[ProvedOutput, ...]:
    """Of a bundle whose proof tells them; what is wrong with a record, `edgeopt report` says."""
    file = folder / _EVIDENCE
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            return ()
        found = msgspec.json.decode(file.read_bytes(), type=_Evidence)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    return found.proof.outputs if found.proof is not None else ()


def deployment_row(deployment: Deployment, outputs: tuple[ProvedOutput, ...] = ()) -> DeploymentRow:
    evidence = deployment.evidence
    row = DeploymentRow(
        deployment.name,
        deployment.created,
        deployment.target,
        deployment.run.backend,
        deployment.run.options,
        deployment.source.name,
        deployment.summary,
        outputs=outputs,
    )
    if evidence is None:
        # An analysis has no predicted times; the verdict contains the prediction.
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
