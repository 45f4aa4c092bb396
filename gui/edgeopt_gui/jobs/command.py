"""A command line as data: what a job runs, and what the user may copy."""

from dataclasses import dataclass, field

from edgeopt.platform.command_line import join_words

LOCK_VARIABLE = "EDGEOPT_GUI_DEVICE_LOCK"
"""Environment variable with the path of the file that a command locks while it measures on this device."""
_MEASURING = frozenset({"optimize", "bench", "quantize", "ops", "lab"})
_MEASURES = frozenset({"--deep", "--profile-ops"})


@dataclass(frozen=True, slots=True)
class Command:
    """One call of `edgeopt`; `arguments` are as a person would type them, without `--json`."""

    title: str
    """Title shown to the user: `Optimizing digits_cnn.onnx`."""
    arguments: tuple[str, ...]
    alone: bool = False
    """Whether a watch of the app stops while the command runs."""
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Environment variables that other processes and logs must not see."""

    @property
    def measures(self) -> bool:
        """Whether what runs beside it falsifies it: times are taken on this device."""
        if "--device" in self.arguments or self.arguments[:2] == ("bench", "compare"):
            return False
        return not _MEASURING.isdisjoint(self.arguments[:1]) or not _MEASURES.isdisjoint(self.arguments)

    @property
    def measures_here(self) -> bool:
        """Whether it measures on this device and not on the one after `--on`."""
        return self.measures and "--on" not in self.arguments

    @property
    def limit_s(self) -> float | None:
        """Time limit of a search in seconds; None for other commands and searches without `--time-limit`."""
        if self.arguments[:1] not in {("optimize",), ("quantize",)} or "--time-limit" not in self.arguments[:-1]:
            return None
        return float(self.arguments[self.arguments.index("--time-limit") + 1])

    @property
    def searches(self) -> bool:
        return self.arguments[:1] == ("optimize",)

    @property
    def watches(self) -> bool:
        """Whether it runs until it is stopped, and writes nothing."""
        if self.arguments[:2] == ("fleet", "devices"):
            return "--follow" in self.arguments
        return self.arguments[:1] == ("watch",) or self.arguments[:2] == ("fleet", "watch")

    @property
    def line(self) -> str:
        """Shell command that does the same."""
        return join_words(("edgeopt", *self.arguments))
