"""The process that runs runtimes and passes; it is restarted if it crashes or hangs."""

import tempfile
from pathlib import Path

from edgeopt.commands.analyze.messages import Answer, Request, decode_answer
from edgeopt.measure.host import Asked, LocalHost
from edgeopt.measure.serve import Failed

CHILD_MODULE = "edgeopt.commands.analyze.child"


class Lane:
    """Several lanes can be asked before any is waited for."""

    def __init__(self) -> None:
        # What runtimes write for a while goes there, and goes with it.
        self._folder = tempfile.TemporaryDirectory(prefix="edgeopt-analyze-")
        self._asked: Asked[Answer] = Asked(LocalHost(Path(self._folder.name)), CHILD_MODULE, decode_answer.decode)

    def ask(self, request: Request) -> None:
        self._asked.send(request)

    def answer(self, limit_s: float) -> Answer | Failed:
        """What it says; that it crashed or hung is an answer too."""
        return self._asked.answer(limit_s)

    def close(self) -> None:
        """Ends the process, and what it left; safe to call twice."""
        self._asked.close()
        self._folder.cleanup()
