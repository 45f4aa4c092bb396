"""One backend's measuring process; it may crash or hang at any case and is started anew for the next."""

from pathlib import Path

import msgspec

from edgeopt.bench.host import Child, TrialHost
from edgeopt.errors import TrialError
from edgeopt.ops.messages import Answer, Failed, Open, Time, decode_answer

CHILD_MODULE = "edgeopt.ops.child"
_MOST_STARTS = 25
_OPEN_LIMIT_S = 30.0
_SLICE_LIMIT_S = 15.0


class Lane:
    """Asks for one thing at a time; several lanes can be asked before any is waited for."""

    def __init__(self, backend: str, host: TrialHost, folder: Path) -> None:
        self.backend = backend
        self.outputs_path = folder / f"{backend}.outputs"
        self._host = host
        self._child: Child | None = None
        self._starts = 0

    def open(self, model: Path, feeds: Path, options: dict[str, str | int]) -> None:
        """Begins to load a model and run it once; `answer` waits for it."""
        self.outputs_path.unlink(missing_ok=True)
        put = self._host.put
        self._send(Open(self.backend, options, put(model), put(feeds), str(self.outputs_path)))

    def time(self, slice_ms: float) -> Answer:
        """Runs what is open for a slice."""
        self._send(Time(slice_ms))
        return self.answer(_SLICE_LIMIT_S)

    def answer(self, limit_s: float = _OPEN_LIMIT_S) -> Answer:
        """What it says; that it crashed or hung is an answer too."""
        if self._child is None:
            return Failed("its process ended too often, so nothing more was tried")
        try:
            return decode_answer.decode(self._child.receive(limit_s))
        except TrialError as error:
            self.close()
            return Failed(error.message)
        except msgspec.MsgspecError as error:
            self.close()
            return Failed(f"its process answered something that is no answer: {error}")

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def _send(self, request: Open | Time) -> None:
        if self._child is None:
            if self._starts == _MOST_STARTS:
                return
            self._starts += 1
            self._child = self._host.start(CHILD_MODULE)
        self._child.send(msgspec.json.encode(request))
