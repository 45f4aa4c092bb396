"""One child process that is asked one thing after another; it may crash or hang, and is started anew then."""

import tempfile
from pathlib import Path

import msgspec

from edgeopt.analyzing.messages import Answer, Failed, Request, decode_answer
from edgeopt.bench.host import Child, LocalHost
from edgeopt.errors import TrialError

CHILD_MODULE = "edgeopt.analyzing.child"


class Lane:
    """Several lanes can be asked before any is waited for."""

    def __init__(self) -> None:
        self._child: Child | None = None
        # What runtimes write for a while goes there, and goes with it.
        self._folder = tempfile.TemporaryDirectory(prefix="edgeopt-analyze-")
        self._not_started = ""

    def ask(self, request: Request) -> None:
        if self._child is None:
            try:
                self._child = LocalHost(Path(self._folder.name)).start(CHILD_MODULE)
            except TrialError as error:
                self._not_started = error.message
                return
        self._child.send(msgspec.json.encode(request))

    def answer(self, limit_s: float) -> Answer:
        """What it says; that it crashed or hung is an answer too."""
        if self._child is None:
            return Failed(f"its process {self._not_started}")
        try:
            return decode_answer.decode(self._child.receive(limit_s))
        except TrialError as error:
            self._end()
            return Failed(f"its process {error.message}")
        except msgspec.MsgspecError as error:
            self._end()
            return Failed(f"its process answered something that is no answer: {error}")

    def close(self) -> None:
        """Ends the process, and what it left; safe to call twice."""
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None
