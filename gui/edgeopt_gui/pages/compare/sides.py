"""The two sides of a comparison, their kinds, and the commands that compare them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgeopt.speech.files import audio_files
from edgeopt_gui.jobs.command import Command

Part = Literal["compare", "first", "second", "bench"]
"""One job: outputs and graphs, the analysis of each side, the measurement."""


@dataclass(frozen=True, slots=True)
class Sides:
    first: Path | None = None
    """Side A: the reference."""
    second: Path | None = None
    data: Path | None = None
    time_limit_s: int = 0
    """Time limit of the measurement in seconds; 0 measures until the result is clear."""
    layers: bool = False
    """Whether layers are compared even if the outputs pass."""

    @property
    def paths(self) -> tuple[Path, Path] | None:
        return None if self.first is None or self.second is None else (self.first, self.second)

    @property
    def names(self) -> tuple[str, str]:
        """Short names for column titles, with the folder if the names are equal."""
        first, second = self.first or Path("A"), self.second or Path("B")
        if first.name != second.name:
            return f"A: {first.name}", f"B: {second.name}"
        return f"A: {first.parent.name}/{first.name}", f"B: {second.parent.name}/{second.name}"

    def why_not(self) -> str:
        """Returns why the sides cannot be compared and what to do; "" if they can."""
        if self.first is None or self.second is None:
            side = "A" if self.first is None else "B"
            return f"Side {side} is empty: choose a model or a bundle."
        if self.first == self.second:
            return "Both sides are the same file: choose another one for a side."
        if self.data is not None and audio_files(self.data):
            return (
                f"{self.data.name} is audio, which a comparison does not take: choose an .npz of the model's "
                "inputs, or no data, on the page Optimize."
            )
        return ""

    def commands(self) -> dict[Part, Command]:
        """Returns the commands in the order in which they run: quick ones first, so that results appear early."""
        paths = self.paths
        if paths is None or self.why_not():
            return {}
        first, second = (str(path) for path in paths)
        what = f"{paths[0].name} and {paths[1].name}"
        data = ("--data", str(self.data)) if self.data is not None else ()
        limit = ("--time-limit", str(self.time_limit_s)) if self.time_limit_s else ()
        layers = ("--layers",) if self.layers else ()
        return {
            "compare": Command(f"Comparing {what}", ("compare", first, second, *data, *layers), alone=True),
            "first": Command(f"Reading {paths[0].name}", ("analyze", first, "--quick")),
            "second": Command(f"Reading {paths[1].name}", ("analyze", second, "--quick")),
            "bench": Command(
                f"Measuring {what}, interleaved",
                ("bench", second, "--against", first, *data, *limit),
                alone=True,
            ),
        }
