"""Request of `edgeopt import`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import AllowRandom, argument, option, read_shapes

FLOOR_DB = 90.0
# Options shared with other commands that open a model of a framework.
PythonPath = Annotated[
    Path | None,
    option("Python of the environment with the framework (default: edgeopt's own).", metavar="ENV/bin/python"),
]
Task = Annotated[
    str,
    option("Task of a Hugging Face folder (default: that of its architecture).", metavar="feature-extraction"),
]
Trust = Annotated[bool, option("Open a pickle, a Lambda layer or a folder with code; they can run any code.")]
Opset = Annotated[
    int | None, option("Opset of the model (default: the exporter's choice).", metavar="N", minimum=7, maximum=99)
]
Dynamic = Annotated[
    str,
    option(
        "Names of the leading dimensions to leave open, from axis 0 on; NAME=AXIS for others.",
        metavar="batch,seq",
    ),
]
PROOF_SAMPLES = 32


class SourceOptions(msgspec.Struct, frozen=True):
    """Options to open a model of a framework."""

    python: Path | None = None
    task: str = ""
    trust: bool = False


class ImportRequest(msgspec.Struct, frozen=True):
    source: Annotated[
        str,
        argument("Model file or folder, or code: file.py:NAME or package.module:NAME.", metavar="SOURCE"),
    ]
    out: Annotated[Path, option("ONNX model to write.", "-o", "--out", metavar="OUT.onnx")]
    data: Annotated[
        Path | None,
        option("Samples to export with and to prove the model on (default: generated).", metavar="DATA"),
    ] = None
    samples: Annotated[int, option("Number of samples of the proof.", metavar="N", minimum=1, maximum=4096)] = (
        PROOF_SAMPLES
    )
    shape: Annotated[tuple[str, ...], option("Shape of an input; repeatable.", metavar="NAME=1x3x224x224")] = ()
    opset: Opset = None
    dynamic: Dynamic = ""
    python: PythonPath = None
    task: Task = ""
    trust: Trust = False
    allow_random: AllowRandom = False
    floor_db: Annotated[
        float, option("Least agreement with the original, in dB.", metavar="DB", minimum=0, maximum=200)
    ] = FLOOR_DB

    @property
    def original(self) -> SourceOptions:
        return SourceOptions(self.python, self.task, self.trust)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return read_shapes(self.shape)

    @property
    def dynamic_axes(self) -> dict[str, int]:
        """Returns the axis of each open dimension, by its name."""
        axes: dict[str, int] = {}
        for place, text in enumerate(part.strip() for part in self.dynamic.split(",") if part.strip()):
            name, equals, axis = text.partition("=")
            if not name.isidentifier() or name in axes or (equals and not axis.isdecimal()):
                raise UsageError(
                    f"'{text}' does not name an open dimension.",
                    "Write names, and axes where they differ from the place: --dynamic batch,height=2,width=3",
                )
            axes[name] = int(axis) if equals else place
        return axes
