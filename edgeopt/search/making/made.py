"""The variants that were made, with their files, and why others were not."""

from pathlib import Path

from edgeopt.search.making.plans import Planned
from edgeopt.search.outcome import Candidate, VariantReport


class Variants:
    """They come one after the other, while those that are there are raced already."""

    def __init__(self, passes: tuple[str, ...] = ()) -> None:
        self.passes = passes
        """The exact rewrites that the cleaned model is made with."""
        self.reports: list[VariantReport] = []
        self._paths: dict[tuple[str, str], Path] = {}
        """By variant, and by backend where it is made for that alone."""
        self._planned: dict[tuple[str, str], Planned] = {}

    def leave_out(self, report: VariantReport) -> None:
        self.reports.append(report)

    def enter(self, report: VariantReport, path: Path, planned: Planned | None = None) -> None:
        """`planned`: what gave layers forms, of a variant that is made so."""
        self.reports.append(report)
        for backend in report.backends or ("",):
            self._paths[report.name, backend] = path
            if planned is not None:
                self._planned[report.name, backend] = planned

    def has(self, variant: str, backend: str = "") -> bool:
        """Whether there is one that this backend reads."""
        return (variant, backend) in self._paths or (variant, "") in self._paths

    def path(self, variant: str, backend: str = "") -> Path:
        """The file that a candidate with this backend runs."""
        return self._paths.get((variant, backend)) or self._paths[variant, ""]

    def size_bytes(self, candidate: Candidate) -> int | None:
        mine = [one for one in self.reports if one.name == candidate.variant and one.size_bytes is not None]
        return next(
            (one.size_bytes for one in mine if not one.backends or candidate.backend in one.backends), None
        )

    def planned(self, candidate: Candidate) -> Planned | None:
        return self._planned.get((candidate.variant, candidate.backend))
