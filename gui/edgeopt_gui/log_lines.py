"""Lines of the log, made from events and endings of jobs; events that other widgets draw are left out."""

import time
from dataclasses import dataclass, field
from typing import Literal

from edgeopt import events
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending

Level = Literal["info", "warning", "error"]
MAX_LINES = 5000


@dataclass(frozen=True, slots=True)
class LogLine:
    level: Level
    job: str
    text: str
    time_s: float = field(default_factory=time.time)

    @property
    def clock(self) -> str:
        return time.strftime("%H:%M:%S", time.localtime(self.time_s))

    @property
    def plain(self) -> str:
        """The line as tab-separated text, for the clipboard."""
        date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.time_s))
        return f"{date}\t{self.level}\t{self.job}\t{self.text}"

    def passes(self, words: tuple[str, ...], levels: tuple[Level, ...]) -> bool:
        text = f"{self.job} {self.text}".lower()
        return self.level in levels and all(word in text for word in words)


class JobStory:
    """Turns the events of one job into lines; a phase gets one line, not one per step."""

    def __init__(self, command: Command) -> None:
        self._title = command.title
        self._line = command.line
        self._phase = ("", "")

    def begun(self) -> LogLine:
        return self._say("info", f"$ {self._line}")

    def line_of(self, event: events.Event) -> LogLine | None:
        match event:
            case events.Progress():
                phase = (event.subject, event.phase)
                if phase == self._phase:
                    return None
                self._phase = phase
                return self._say("info", ": ".join(p for p in (*phase, event.message) if p))
            case events.Log():
                return self._say(event.level, event.message)
            case events.Standing() if event.status != "racing":
                return self._say("info", ": ".join(p for p in (event.candidate, event.status, event.reason) if p))
        return None  # numbers are drawn, and the ending covers the last event

    def ended(self, ending: Ending) -> LogLine:
        if ending.good:
            return self._say("info", "Done.")
        sentence = " ".join(p for p in (ending.what, ending.next_step) if p)
        return self._say("info" if ending.how == "cancelled" else "error", sentence)

    def _say(self, level: Level, text: str) -> LogLine:
        return LogLine(level, self._title, " ".join(text.split()))
