"""The process of a backend (`python -m edgeopt.measure.apart.child`); see `messages`."""

from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Session
from edgeopt.measure.apart import values
from edgeopt.measure.apart.messages import Answer, Close, Done, Open, Opened, Run, decode_request
from edgeopt.measure.processes.failed import Failed
from edgeopt.measure.processes.serve import Answering, serve


class Holder:
    """The model that is loaded."""

    def __init__(self) -> None:
        self._session: Session | None = None

    def answer(self, request: Open | Run | Close) -> Answer:
        if isinstance(request, Run):
            if self._session is None:
                return Failed("Nothing is loaded.")
            values.write(Path(request.outputs_path), self._session.run(values.read(Path(request.feeds_path))))
            return Done()
        if self._session is not None:
            self._session.close()
            self._session = None
        if isinstance(request, Close):
            return Done()
        backend = backend_named(request.backend)
        self._session = backend.load(
            Path(request.model_path), request.options, strict=request.strict, custom_ops=request.custom_ops
        )
        return Opened(self._session.inputs, self._session.outputs)


ANSWERING = Answering(decode_request.decode, lambda: Holder().answer)

if __name__ == "__main__":
    serve(ANSWERING.lines())
