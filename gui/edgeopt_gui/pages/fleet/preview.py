"""A preview of a rollout, computed from the known devices."""

from collections.abc import Mapping

from edgeopt import units
from edgeopt.errors import UsageError
from edgeopt.fleet.devices import DeviceReport, FleetDevice
from edgeopt.fleet.mqtt_documents import Presence, is_digest
from edgeopt.fleet.rollout_plan import in_waves, read_share, selected
from edgeopt_gui.pages.fleet.commands import RolloutChoices

_MAX_LABELS = 20


def selections(devices: Mapping[str, FleetDevice]) -> list[str]:
    """Returns `*` for all devices, and each label of a device."""
    labels = {f"{name}={value}": None for each in devices.values() for name, value in each.labels.items()}
    return ["*", *sorted(labels)[:_MAX_LABELS]]


def preview(choices: RolloutChoices, devices: Mapping[str, FleetDevice]) -> str:
    """Returns `3 waves: 1, 50 and 449 devices; 12 are offline.`; raises EdgeoptError for invalid choices."""
    read_share(choices.stop_at_failures, "--stop-at-failures")
    for text, flag in ((choices.max_errors, "--max-errors"), (choices.max_slowdown, "--max-slowdown")):
        if text:
            read_share(text, flag)
    if choices.digest and not is_digest(choices.digest):
        raise UsageError("--digest must be 'sha256:' and 64 digits.", "Compute it with: sha256sum BUNDLE")
    known = {name: _report(each) for name, each in devices.items()}
    names = selected(choices.to, known)
    sizes = [str(len(wave)) for wave in in_waves(choices.waves, names, known)]
    listed = sizes[0] if len(sizes) == 1 else f"{', '.join(sizes[:-1])} and {sizes[-1]}"
    offline = sum(not devices[name].online for name in names)
    summary = f"{units.count(len(sizes), 'wave')}: {listed} {'device' if sizes == ['1'] else 'devices'}"
    return f"{summary}; {offline} of them offline." if offline else f"{summary}."


def _report(device: FleetDevice) -> DeviceReport:
    state = "online" if device.online else "offline"
    return DeviceReport(Presence(state, 0, labels=device.labels))  # type: ignore[arg-type]
