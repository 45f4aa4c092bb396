"""What a search says as it goes, and which of it the outcome repeats."""

from dataclasses import dataclass, field

from edgeopt.events import Emit, Log


@dataclass(frozen=True, slots=True)
class SearchNotes:
    emit: Emit
    kept: list[str] = field(default_factory=list)
    """For the outcome."""

    def warn(self, message: str) -> None:
        self.kept.append(message)
        self.emit(Log("warning", message))

    def warn_once(self, message: str) -> None:
        """Nothing where there is nothing to say."""
        if message and message not in self.kept:
            self.warn(message)

    def tell(self, message: str) -> None:
        """What belongs into the outcome, and is nothing to worry about."""
        self.kept.append(message)
        self.emit(Log("info", message))
