"""What `--counters` could not count here, and why."""

from edgeopt.hw.device import Unavailable
from edgeopt.measure.instruments.counters import open_counters
from edgeopt.measure.report import SideReport


def not_counted(sides: tuple[SideReport, ...]) -> tuple[str, ...]:
    """Sentences; none where all was counted."""
    found = open_counters()
    if isinstance(found, Unavailable):
        return (f"No hardware counters: {found.reason.rstrip('.')}.",)
    missing = dict(found.missing)
    found.close()
    said = []
    for reason in dict.fromkeys(missing.values()):
        names = [name.replace("_", " ") for name, why in missing.items() if why == reason]
        said.append(f"Not counted: {', '.join(names)}: {reason.rstrip('.')}.")
    if found.user_only:
        said.append("The counters exclude the kernel's work for the model.")
    uncounted = [side.name for side in sides if not side.counters_per_run and side.failure is None]
    if uncounted:
        said.append(f"No counters for {', '.join(uncounted)}: a served model runs in another process.")
    return tuple(said)
