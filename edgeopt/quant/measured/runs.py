"""Runs models on samples, each runtime in a process of its own: one that crashes is a reason, and no end."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Available, Backend, Options, TensorInfo
from edgeopt.backends.full_precision import full_precision
from edgeopt.errors import EdgeoptError, MissingExtraError, ModelError, VerificationError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.isolated_backend import Apart

JUDGES = ("onnxruntime-cpu", "openvino-cpu")
"""The first that runs the source says what is right; an accelerator may compute in fewer bits by itself."""
# Two runs of one model in one runtime differ by nothing, or by the order in which threads add: 100 dB and more.
_ALIKE_DB = 80.0

Outputs = list[dict[str, Array]]


class Runs:
    """What models answer; use it in a `with`, so that its processes end."""

    def __init__(self) -> None:
        self._apart = Apart()
        self._judge: Backend | None = None
        self._ports: tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]] = ((), ())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._apart.close()

    def outputs(self, path: Path, backend: str, options: Options, feeds: Sequence[Mapping[str, Array]]) -> Outputs:
        """Raises an EdgeoptError with a sentence where the runtime cannot run it."""
        session = self._apart.of(backend_named(backend)).load(path, options)
        try:
            return [dict(session.run(each)) for each in feeds]
        finally:
            session.close()

    def inputs(self, path: Path) -> tuple[TensorInfo, ...]:
        """What a model takes, as the first runtime that loads it says; that one is the judge from then on."""
        reasons, missing = [], []
        for name in JUDGES:
            backend = backend_named(name)
            state = backend.available()
            if not isinstance(state, Available):
                missing.append(state.extra or name)
                continue
            try:
                session = self._apart.of(backend).load(path, {})
            except EdgeoptError as error:
                reasons.append(error.message)
                continue
            try:
                self._judge = backend
                self._ports = tuple(session.inputs), tuple(session.outputs)
                return self._ports[0]
            finally:
                session.close()
        if not reasons:
            raise MissingExtraError(missing[0] if missing else "cpu", "Quantizing a model")
        raise ModelError(
            f"No installed runtime can load the model. {' '.join(reasons)}",
            f"Check it with: edgeopt analyze {shlex.quote(str(path))}",
        )

    @property
    def ports(self) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
        """What the source takes and gives; `inputs` comes first."""
        return self._ports

    @property
    def judge(self) -> str:
        assert self._judge is not None  # noqa: S101 - `inputs` comes first
        return self._judge.name

    def source_outputs(self, path: Path, feeds: Sequence[Mapping[str, Array]]) -> Outputs:
        """What is right; VerificationError where the model answers the same inputs differently each time."""
        # In one session: a runtime may begin with the same random numbers each time that it loads a model.
        found = self.outputs(path, self.judge, full_precision(self.judge), [*feeds, *feeds[:2]])
        first, again = found[: len(feeds)], found[len(feeds) :]
        steady = compare_outputs(first[:2], again)
        if steady.problem or steady.snr_db < _ALIKE_DB:
            raise VerificationError(
                f"Two runs on the same inputs differ ({steady.snr_db:.1f} dB), so variants of the model "
                "cannot be checked.",
                "Remove the random operators or fix their seeds, then export the model again.",
            )
        return first
