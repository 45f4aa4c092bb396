"""Display of the devices of a fleet and its rollouts for people."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.errors import printable
from edgeopt.fleet.rollout_documents import device_word
from edgeopt.views.blocks import Block, WordsBlock, filled, table_of
from edgeopt.views.rollout import bundle_text, counts_text, kind_text, speedup_of, state_text

if TYPE_CHECKING:
    from edgeopt.fleet.devices import FleetDevices
    from edgeopt.fleet.discovery import DiscoveredAgents
    from edgeopt.fleet.rollout_commands import RolloutKind, RolloutList, RolloutReport


def show_discovered(result: "DiscoveredAgents") -> list[Block]:
    if not result.agents:
        return [
            WordsBlock(f"No agent answered within {result.seconds:g} s."),
            WordsBlock("Agents announce themselves with `announce = true` in agent.toml only; see docs/fleet.md."),
        ]
    table = table_of(
        result.agents,
        ("=agent", lambda each: each.name),
        ("=url", lambda each: each.url),
        ("version", lambda each: each.version),
        ("fingerprint", lambda each: each.fingerprint or "no TLS"),
    )
    return [filled(table)]


def show_devices(result: "FleetDevices") -> list[Block]:
    if not result.devices:
        return [WordsBlock(f"No device has reported to the broker in the fleet '{result.fleet}'.")]
    table = table_of(
        result.devices,
        ("=device", lambda each: each.device),
        ("!", lambda each: "online" if each.online else "offline"),
        ("state", lambda each: device_word(each.state, each.stage)),
        ("=model", lambda each: printable(each.name)),
        ("=release", lambda each: each.release),
        ("last deployment", lambda each: each.deployment.lower().replace("_", " ")),
        ("ordered together", lambda each: _models_text(each.models)),
        ("labels", lambda each: ", ".join(f"{name}={value}" for name, value in each.labels.items())),
        ("reason", lambda each: printable(each.reason)),
    )
    online = sum(each.online for each in result.devices)
    return [filled(table), WordsBlock(f"{units.count(len(result.devices), 'device')}, {online} online.")]


def show_rollout(result: "RolloutReport | RolloutList") -> list[Block]:
    from edgeopt.fleet.rollout_commands import RolloutList

    if isinstance(result, RolloutList):
        return _list(result)
    phase = result.phase.replace("-", " ")
    title = f"Rollout {result.name}: {phase}" + (f" ({printable(result.reason)})" if result.reason else "")
    if result.dry_run:
        title = f"Rollout {result.name}: nothing was ordered."
    sizes = f"{', '.join(map(str, result.waves))} device{'' if result.waves == (1,) else 's'}"
    count = len(result.waves)
    wave = f"Wave {result.wave} of {count}" if result.wave else units.count(count, "wave")
    waves = f"{wave} ({sizes}). {counts_text(result)}."
    table = table_of(
        result.devices,
        ("=device", lambda each: each.device),
        ("wave", lambda each: str(each.wave)),
        ("!state", state_text),
        ("models", lambda each: _models_text(each.models)),
        ("=kind", lambda each: printable(each.kind)),
        ("reason", lambda each: printable(each.reason)),
    )
    return [
        filled(table),
        *([_kinds(result.kinds)] if result.kinds else []),
        WordsBlock(f"{'Model' if result.kinds else 'Bundle'}: {bundle_text(result)}"),
        WordsBlock(waves),
        WordsBlock(title, "bad" if result.phase in {"stopped", "rollback-failed"} else ""),
    ]


def _kinds(kinds: "Sequence[RolloutKind]") -> Block:
    table = table_of(
        kinds,
        ("=kind", lambda each: printable(each.kind)),
        ("devices", lambda each: str(each.devices)),
        ("!bundle", kind_text),
        ("=found by", lambda each: each.device),
        ("speed-up", speedup_of),
        ("summary", lambda each: printable(each.summary or each.reason)),
    )
    return filled(table)


def _models_text(models: Mapping[str, str]) -> str:
    """The models of one order and their states: `eyes committed, ears soaking`."""
    return ", ".join(
        printable(f"{name} {device_word(state or 'nothing to do', '')}") for name, state in models.items()
    )


def _list(result: "RolloutList") -> list[Block]:
    if not result.rollouts:
        return [WordsBlock("There is no rollout. See: edgeopt fleet rollout start --help")]
    table = table_of(
        result.rollouts,
        ("=rollout", lambda each: each.name),
        ("!", lambda each: each.phase.replace("-", " ")),
        ("=bundle", bundle_text),
        ("!wave", lambda each: f"{each.wave} of {len(each.waves)}"),
        ("devices", counts_text),
        ("reason", lambda each: printable(each.reason)),
    )
    return [filled(table)]
