"""The measuring process of one backend; if it crashes or hangs at a case, it is restarted for the next."""

from pathlib import Path

from edgeopt.commands.ops.messages import Answer, Open, Time, decode_answer
from edgeopt.measure.host import TrialHost
from edgeopt.measure.processes.asked import Asked
from edgeopt.measure.processes.failed import Failed, refuse_machine_failure

CHILD_MODULE = "edgeopt.commands.ops.child"
_MOST_STARTS = 25
_OPEN_LIMIT_S = 30.0
_SLICE_LIMIT_S = 15.0


class Lane:
    """Asks for one thing at a time; several lanes can be asked before any is waited for."""

    def __init__(self, backend: str, host: TrialHost, folder: Path) -> None:
        self.backend = backend
        self.outputs_path = folder / f"{backend}.outputs"
        self._host = host
        self._asked: Asked[Answer] = Asked(host, CHILD_MODULE, decode_answer.decode, _MOST_STARTS)

    def open(self, model: Path, feeds: Path, options: dict[str, str | int]) -> None:
        """Begins to load a model and run it once; `answer` waits for it."""
        self.outputs_path.unlink(missing_ok=True)
        put = self._host.put
        self._asked.send(Open(self.backend, options, put(model), put(feeds), str(self.outputs_path)))

    def time(self, slice_ms: float) -> Answer | Failed:
        """Runs what is open for a slice."""
        self._asked.send(Time(slice_ms))
        return self.answer(_SLICE_LIMIT_S)

    def answer(self, limit_s: float = _OPEN_LIMIT_S) -> Answer | Failed:
        """What it says; that it crashed or hung is an answer too."""
        found = self._asked.answer(limit_s)
        refuse_machine_failure(found)
        return found

    def close(self) -> None:
        self._asked.close()
