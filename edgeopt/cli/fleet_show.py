"""How agents' answers look to people; `edgeopt fleet` and `edgeopt-agent` share it."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.fleet.monitor import Watched
    from edgeopt.fleet.records import Deployment, Releases, Status

_TRUST = {
    "unsigned": "It trusts no key: any bundle is taken, from this device alone.",
    "signed": "It takes only bundles that are signed by a key it trusts.",
}


def show_status(result: "Status", console: "Console") -> None:
    """What serves, what came before, and the last deployment with its reason."""
    console.print(f"The agent is {result.state}, up for {_duration(result.uptime_s)}.", markup=False)
    if result.serving is not None:
        since = result.serving.since_s
        for_long = f" for {_duration(time.time() - since)}" if since else ""
        console.print(f"Serving: {result.serving.name} (release {result.serving.release}){for_long}", markup=False)
    else:
        console.print("Serving: nothing. Deploy with: edgeopt-agent deploy BUNDLE")
    if result.reason:
        console.print(f"Trouble: {result.reason}", markup=False)
    if result.previous is not None:
        before = result.previous
        console.print(f"A rollback leads to: {before.name} (release {before.release})", markup=False)
    if result.deployment is not None:
        console.print(f"Last deployment: {_told(result.deployment)}", markup=False)
    console.print(_TRUST.get(result.trust, result.trust), markup=False)


def show_releases(result: "Releases", console: "Console") -> None:
    from rich.table import Table

    if not result.releases:
        console.print("No release is on the device. Deploy one with: edgeopt-agent deploy BUNDLE")
        return
    table = Table("release", "name", "state", "made", "what it is, or why it is refused", box=None, pad_edge=False)
    for release in result.releases:
        about = release.reason or release.summary
        cells = (release.id, release.name, release.state, release.created[:16].replace("T", " "), about)
        table.add_row(*(_plain(cell) for cell in cells))
    console.print(table)


def show_deployment(result: "Deployment", console: "Console") -> None:
    told = _told(result)
    console.print(told[:1].upper() + told[1:], markup=False)


def show_watched(result: "Watched", console: "Console") -> None:
    console.print(f"Watched {result.url} for {result.seconds:.0f} s.", markup=False)
    if result.sent is None:
        return
    sent = result.sent
    latency = "" if sent.latency_p50_ms is None else f"; half answered within {sent.latency_p50_ms:.2f} ms"
    console.print(f"Sent {sent.requests:,} requests, {sent.failures:,} failed{latency}.", markup=False)
    if sent.first_failure:
        console.print(f"The first failure: {sent.first_failure}", markup=False)


def _told(deployment: "Deployment") -> str:
    name = f" of {deployment.name}" if deployment.name else ""
    release = f" (release {deployment.release})" if deployment.release else ""
    reason = f": {deployment.reason}" if deployment.reason else ""
    kind = "deployment" if deployment.kind == "deploy" else deployment.kind
    return f"{kind} {deployment.id}{name}{release}, {deployment.state.lower().replace('_', ' ')}{reason}"


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 60:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"
