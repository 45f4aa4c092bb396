"""The progress of a running job in one short line."""

from edgeopt import events
from edgeopt_gui.jobs.command import Command

# Cancelling these loses nothing: their result takes only a moment to read again.
_READERS = ("probe", "targets", "analyze")


_SILENT_S = 10


def silence(command: Command, progress: events.Progress | None, silent_s: float) -> str:
    """Returns how long a job has been silent, with its last phase; "" if that is not long.

    A fleet watch may be silent for hours, so it is never reported.
    """
    if silent_s < _SILENT_S or command.arguments[:2] == ("fleet", "devices"):
        return ""
    last = progress.phase if progress is not None and progress.phase else command.title
    return f"No news for {silent_s:.0f} s: {last}"


def status(command: Command, progress: events.Progress | None) -> str:
    # Events of an agent appear beside the curves: they are not progress of the job.
    if progress is None or command.arguments[:2] == ("fleet", "watch"):
        return command.title
    parts = [command.title, progress.phase]
    if progress.done is not None and progress.total:
        parts.append(f"{progress.done} of {progress.total}")
    return " · ".join(part for part in parts if part)


def loss(command: Command) -> str:
    """Returns what is lost if the command is cancelled, as a sentence; "" if nothing is."""
    name, *rest = command.arguments
    if name in _READERS or command.watches or command.arguments[:2] == ("fleet", "status"):
        return ""
    if name == "optimize" and "--device" in rest:
        return "The plan is not written."
    if name == "optimize" and "--pick" in rest:
        return "The other candidate is not delivered."
    if name == "optimize":
        return "The search ends without a bundle; the variants made so far are cached for the next search."
    if name == "lab":
        return "Its searches end; finished cells are kept, and the same command continues."
    if name == "import":
        return "No model is written."
    if name in {"report", "export"}:
        return "The files are not written."
    if name == "fleet" and rest[:1] == ["rollout"]:
        return "No further wave begins; the broker keeps the rollout, and any client can take it over."
    if name == "fleet":
        return "The agent may still finish the request; the app no longer shows it."
    return "The result is lost."


def percent(progress: events.Progress | None, share_of_time: float | None = None) -> int | None:
    """Returns the progress in percent of the time limit, or else of the phase; None if neither is known."""
    if share_of_time is not None:
        return round(100 * share_of_time)
    if progress is None or progress.done is None or not progress.total:
        return None
    return min(100, max(0, round(100 * progress.done / progress.total)))
