"""The lines that follow a result: how to use the file, and how to measure it as it was proved."""

import re
import shlex
from pathlib import Path

from edgeopt.commands.documents.blocks import Block, Commands, Words, section


def next_steps(
    made: Path, source: Path | None, data: Path | None = None, against: str = "onnxruntime-cpu"
) -> Block:
    """`against`: where the source ran that the proof compares with, as a side of `edgeopt bench` names it.

    Without a source the file is measured alone: a model with other inputs cannot be compared with it.
    """
    measure = ["edgeopt", "bench", str(made)]
    if source is not None:
        measure += ["--against", f"{source}@{against}"]
    if data is not None and data.suffix == ".npz":  # pictures need the preparation of a profile
        measure += ["--data", str(data)]
    return section(
        "",
        Commands(
            (
                ("Use it from Python:", f"session = edgeopt.load({_quoted(str(made))})"),
                ("Measure it again:", shlex.join(measure)),
            )
        ),
    )


def as_commands(text: str) -> Block:
    """Each command of a text on a line of its own, which is never folded; a colon is before each."""
    found = re.findall(r"(?:^|, or )((?:(?!: edgeopt ).)+:) (edgeopt .+?)(?=, or [\w ]+: edgeopt |$)", text)
    return Commands(tuple((why[0].upper() + why[1:], command) for why, command in found)) if found else Words(text)


def _quoted(text: str) -> str:
    return f'"{text}"' if '"' not in text and "\\" not in text else repr(text)
