"""Plan of the changes of a deployment on an agent, made without sending anything."""

from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import Deployment
from edgeopt.bundle.manifest import SIGNATURE, release_id
from edgeopt.bundle.read import read_bundle
from edgeopt.events import Emit, Progress
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt.fleet.records import FINAL, DeployPlan, ModelStatus, Status
from edgeopt.hw.device import differing_parts, fingerprint


def plan_deployment(agent: Agent, bundle: Path, options: DeployOptions, emit: Emit) -> DeployPlan:
    """Raises as a deployment does for a damaged bundle, an agent that is away and a token that is refused."""
    emit(Progress("checking digests", bundle.name))
    read = read_bundle(bundle)
    emit(Progress("asking the agent", agent.url))
    status = agent.status()
    deployment, release = read.deployment, release_id(read.folder)
    plan = _with_evidence(
        DeployPlan(agent.url, deployment.name, release, deployment.summary, _size(read.folder), "start"),
        deployment,
    )
    model = _model_for(status, deployment.name)
    if model is not None and not options.add:
        serving = model.serving
        same = serving is not None and serving.release == release
        named_so = serving is None or serving.name == deployment.name
        action = "none" if same else "replace" if named_so else "rename"
        plan = msgspec.structs.replace(plan, replaces=serving, action=action if serving else "start")
    elif _serves(status):
        plan = msgspec.structs.replace(plan, action="add")
    signed = (read.folder / SIGNATURE).exists()
    other = differing_parts(deployment.device, fingerprint(agent.device()))
    problem = _problem(plan, status, model, options, signed=signed, other=other)
    return plan if problem is None else msgspec.structs.replace(plan, **problem)


def _problem(
    plan: DeployPlan,
    status: Status,
    model: ModelStatus | None,
    options: DeployOptions,
    *,
    signed: bool,
    other: list[str],
) -> dict[str, str] | None:
    """The first reason that is known for a refusal."""
    running = model.deployment if model is not None else None
    if running is not None and running.state not in FINAL:
        message = f"Deployment {running.id} of this model is in progress."
        return {"code": "busy", "problem": message, "hint": "Wait for its end, or cancel it: edgeopt fleet cancel"}
    if status.trust == "signed" and not signed:
        message = "The agent accepts only signed bundles, and this one is not signed."
        return {
            "code": "unsigned",
            "problem": message,
            "hint": "Where the private key is: edgeopt sign BUNDLE --key KEY",
        }
    if other and not options.force:
        message = f"The bundle was proved on another device (its {' and '.join(other)} differ)."
        hint = "Optimize the model for that device, or deploy the bundle with --force."
        return {"code": "other-device", "problem": message, "hint": hint}
    if plan.action == "rename" and not options.rename and plan.replaces is not None:
        served = plan.replaces.name
        message = f"The agent serves '{served}': clients of '{served}' would get 404."
        return {
            "code": "other-name",
            "problem": message,
            "hint": "Pass --rename to replace it, or --add to serve both.",
        }
    return None


def _model_for(status: Status, name: str) -> ModelStatus | None:
    """The model that a bundle of this name replaces: the one of its name, or the first one."""
    first = ModelStatus(status.state, "", status.serving, status.previous, status.deployment)
    models = status.models or (first,)
    return next((each for each in models if name == _served_name(each)), models[0])


def _served_name(model: ModelStatus) -> str:
    return model.name or (model.serving.name if model.serving is not None else "")


def _serves(status: Status) -> bool:
    return status.serving is not None or any(each.serving is not None for each in status.models)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _with_evidence(plan: DeployPlan, deployment: Deployment) -> DeployPlan:
    found = deployment.evidence
    if found is None:
        return plan
    return msgspec.structs.replace(
        plan,
        speedup=found.speedup,
        speedup_low=found.speedup_low,
        speedup_high=found.speedup_high,
        baseline_ms=found.baseline_ms,
        latency_ms=found.latency_ms,
        accuracy_db=found.accuracy_db,
        floor_db=found.floor_db,
    )
