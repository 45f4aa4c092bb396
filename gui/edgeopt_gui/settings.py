"""The typed settings of the app, stored by QSettings."""

from pathlib import Path

from PySide6.QtCore import QByteArray, QObject, QSettings, Signal

MAX_RECENT = 12
MAX_AGENTS = 8
_AGENTS = "agents"


class Settings(QObject):
    changed = Signal()

    def __init__(self, store: QSettings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store

    def text(self, key: str, default: str = "") -> str:
        return str(self._store.value(key, default))

    def number(self, key: str, default: float) -> float:
        try:
            return float(str(self._store.value(key, default)))
        except ValueError:
            return default

    def flag(self, key: str, default: bool = False) -> bool:
        return str(self._store.value(key, default)).lower() in {"true", "1"}

    def state(self, key: str) -> QByteArray:
        value = self._store.value(key, QByteArray())
        return value if isinstance(value, QByteArray) else QByteArray()

    def keep(self, key: str, value: str | float | bool | QByteArray) -> None:
        if self._store.value(key) != value:
            self._store.setValue(key, value)
            self.changed.emit()

    def recent(self) -> tuple[Path, ...]:
        return tuple(Path(line) for line in self.text("recent").split("\n") if line)

    def remember(self, path: Path) -> None:
        """Puts a file at the head of the recent ones."""
        paths = [path, *(p for p in self.recent() if p != path)]
        self.keep("recent", "\n".join(str(p) for p in paths[:MAX_RECENT]))

    def forget_recent(self) -> None:
        self.keep("recent", "")

    def agents(self) -> tuple[str, ...]:
        """Addresses of agents that answered, the latest first."""
        return tuple(line for line in self.text(_AGENTS).split("\n") if line)

    def remember_agent(self, url: str) -> None:
        """Puts an address at the head; it must hold no secret."""
        urls = [url, *(each for each in self.agents() if each != url)]
        self.keep(_AGENTS, "\n".join(urls[:MAX_AGENTS]))

    def forget_agent(self, url: str) -> None:
        self.keep(_AGENTS, "\n".join(each for each in self.agents() if each != url))

    def reset(self) -> None:
        """Clears all settings, as on the first start."""
        self._store.clear()
        self.changed.emit()
