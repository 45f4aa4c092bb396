"""Messages of a search, and those among them that the outcome repeats."""

from dataclasses import dataclass, field

from edgeopt.events import Emit, Log


@dataclass(frozen=True, slots=True)
class SearchNotes:
    emit: Emit
    kept: list[str] = field(default_factory=list)
    """Messages that the outcome repeats."""

    def warn(self, message: str) -> None:
        self.kept.append(message)
        self.emit(Log("warning", message))

    def warn_once(self, message: str) -> None:
        """Warns, unless the message is empty or was kept before."""
        if message and message not in self.kept:
            self.warn(message)

    def inform(self, message: str) -> None:
        """Reports a message that belongs in the outcome but is not a warning."""
        self.kept.append(message)
        self.emit(Log("info", message))
