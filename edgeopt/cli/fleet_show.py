"""Display of agents' answers for people, shared by `edgeopt fleet` and `edgeopt-agent`."""

import time
from typing import TYPE_CHECKING

from edgeopt.errors import printable
from edgeopt.fleet.address import DEFAULT_URL, in_commands
from edgeopt.fleet.records import DeployPlan, deployment_title
from edgeopt.views.blocks import Block, WordsBlock, facts, lines, table_of
from edgeopt.views.deploy_plan import consequence, plan_rows

if TYPE_CHECKING:
    from edgeopt.fleet.monitor import WatchedAgent
    from edgeopt.fleet.records import (
        FleetDeployment,
        ModelStatus,
        Releases,
        Removed,
        ServerBatching,
        ServerDrift,
        Status,
    )

_TRUST = {
    "unsigned": "No key is trusted: the agent accepts any bundle, but from its own device only.",
    "signed": "The agent accepts only bundles signed by a trusted key.",
}


def goes_on(url: str, fingerprint: str = "") -> str:
    """Returns the sentence for the case that a deployment is no longer followed."""
    sentence = "the deployment continues (edgeopt fleet status shows it; edgeopt fleet rollback undoes it)"
    return in_commands(sentence, url, fingerprint)


def show_status(result: "Status", url: str = DEFAULT_URL, fingerprint: str = "") -> tuple[Block, ...]:
    """Returns the serving release, the previous one, and the last deployment with its reason."""
    texts = [f"The agent is {result.state}, up for {_duration(result.uptime_s)}."]
    if result.serving is not None:
        since = result.serving.since_s
        for_long = f" for {_duration(time.time() - since)}" if since else ""
        texts.append(f"Serving: {result.serving.name} (release {result.serving.release}){for_long}")
        if result.serving.untrusted:
            texts.append(result.serving.untrusted)
        if result.serving.processing:
            texts.append(f"With processing; the plain model is {result.serving.plain_name}.")
    else:
        texts.append("Serving: nothing. Deploy with: edgeopt fleet deploy BUNDLE")
    if result.batching is not None:
        texts.append(_batching(result.batching))
    if result.drift is not None:
        texts.append(_drift(result.drift))
    if result.reason:
        texts.append(f"Trouble: {printable(result.reason)}")
    if result.previous is not None:
        previous = f"{result.previous.name} (release {result.previous.release})"
        why_not = printable(result.previous.reason)
        texts.append(f"No rollback to {previous}: {why_not}" if why_not else f"A rollback returns to: {previous}")
    if result.deployment is not None:
        texts.append(f"Last deployment: {_deployment_text(result.deployment)}")
    texts += [_model_line(model) for model in result.models[1:]]
    texts += [f"Watched folder: '{printable(each.file)}': {printable(each.reason)}" for each in result.watched]
    trust = _TRUST.get(result.trust, result.trust)
    return lines([*(in_commands(text, url, fingerprint) for text in texts), trust])


def _model_line(model: "ModelStatus") -> str:
    """Returns the line of one of an agent's other models."""
    serving, deployment = model.serving, model.deployment
    what = f"serving (release {serving.release})" if serving is not None else model.state
    if serving is not None and serving.processing:
        what += f" with processing (plain model: {serving.plain_name})"
    deployed = f"; last deployment: {_deployment_text(deployment)}" if deployment is not None else ""
    batching = f". {_batching(model.batching).rstrip('.')}" if model.batching is not None else ""
    drift = f". {_drift(model.drift).rstrip('.')}" if model.drift is not None else ""
    untrusted = f". {serving.untrusted.rstrip('.')}" if serving is not None and serving.untrusted else ""
    return f"Model {model.name or 'without a name'}: {what}{deployed}{batching}{drift}{untrusted}" + (
        f". Trouble: {printable(model.reason)}" if model.reason else ""
    )


def _batching(found: "ServerBatching") -> str:
    if not found.used:
        return f"No batches: {found.reason}"
    return f"Batches of up to {found.max_size} rows: {found.reason}"


def _drift(found: "ServerDrift") -> str:
    if found.state == "alarm":
        return f"Drift: {printable(found.sentence)}"
    if found.state == "learning":
        return f"Drift: learning from the first requests ({found.requests} of {found.reference_requests})."
    return "Drift: none."


def show_removed(result: "Removed") -> list[Block]:
    return [WordsBlock(f"The model {result.removed} was removed with its releases.")]


def show_releases(result: "Releases", url: str = DEFAULT_URL, fingerprint: str = "") -> list[Block]:
    if not result.releases:
        sentence = "No release is on the device. Deploy one with: edgeopt fleet deploy BUNDLE"
        return [WordsBlock(in_commands(sentence, url, fingerprint))]
    found = table_of(
        result.releases,
        ("=release", lambda each: each.id),
        ("=name", lambda each: each.name),
        ("!state", lambda each: f"{each.state}, pinned" if each.pinned else each.state),
        ("made", lambda each: each.created[:16].replace("T", " ")),
        ("summary, or reason", lambda each: printable(each.reason or each.summary)),
    )
    return [found]


def show_deployment(result: "FleetDeployment | DeployPlan") -> list[Block]:
    if isinstance(result, DeployPlan):
        refused = f"{result.problem} {in_commands(result.hint, result.url)}".strip()
        found = facts(plan_rows(result))
        return [found, WordsBlock(consequence(result)), *([WordsBlock(f"Refused: {refused}")] if refused else [])]
    text = _deployment_text(result)
    shown = [WordsBlock(text[:1].upper() + text[1:])]
    if result.text_routes:
        routes = " and ".join(result.text_routes)
        shown.append(WordsBlock(f"Requests to {routes} name it as the model '{printable(result.name)}'."))
    return [*shown]


def show_watched(result: "WatchedAgent") -> tuple[Block, ...]:
    texts = [f"Watched {result.url} for {result.seconds:.0f} s."]
    sent = result.sent
    if sent is not None:
        latency = "" if sent.latency_p50_ms is None else f"; median latency {sent.latency_p50_ms:.2f} ms"
        texts.append(f"Sent {sent.requests:,} requests, {sent.failures:,} failed{latency}.")
        texts += [f"The first failure: {sent.first_failure}"] if sent.first_failure else []
    return lines(texts)


def _deployment_text(deployment: "FleetDeployment") -> str:
    name = f" of {printable(deployment.name)}" if deployment.name else ""
    release = f" (release {deployment.release})" if deployment.release else ""
    reason = f": {printable(deployment.reason)}" if deployment.reason else ""
    title, state = deployment_title(deployment.kind, deployment.id), deployment.state.lower().replace("_", " ")
    return f"{title}{name}{release}, {state}{reason}"


def _duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 60:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"
