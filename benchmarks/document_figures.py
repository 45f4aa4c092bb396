"""Measures the built-in sample once and writes its figures into every page that quotes them.

    .venv/bin/python benchmarks/document_figures.py            # on a quiet machine, about five minutes
    git diff README.md docs

One bundle gives all figures: that of `edgeopt demo`. Each command that a page quotes then runs on this bundle. For
the row of the sample in the table of the README, run `peers.py MODEL DATA --bundle FOLDER/model.edgeopt` on the
bundle that `--keep FOLDER` leaves.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "edgeopt" / "data" / "demo"
FIGURE = r"\d[\d.,]*"
_NAME = re.compile(r"\{(\w+)\}")
_ALLOWED = (0, 4)
"""Exit codes: 4 is that of a broken limit, which one of the pages shows."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A line that pages quote from what a command prints, with a name for each figure."""

    line: str
    pages: tuple[str, ...]
    command: str = ""
    """Empty where an earlier command has measured the figures."""


FOUND = "{speedup}x faster than source · onnxruntime-cpu ({after} µs instead of {before} µs), accuracy {snr} dB."
QUOTES = (
    Quote(FOUND, ("README.md", "docs/tutorial.md"), "demo -o model.edgeopt"),
    Quote(
        "model.edgeopt is faster than model.onnx: {bench}x [{bench_low} {bench_high}]",
        ("docs/tutorial.md", "docs/recipes/upgrade.md"),
        "bench model.edgeopt --against model.onnx --data data.npz",
    ),
    Quote(
        "{slower}x slower than model.edgeopt; 5 % allowed",
        ("docs/tutorial.md",),
        "bench model.onnx --against model.edgeopt --data data.npz --max-slowdown 5%",
    ),
    Quote("{slower}x slower than deployed.edgeopt; 5 % allowed", ("docs/recipes/ci-job.md",)),
    Quote(
        "speed-up                                 {speedup}x [{low} {high}]",
        ("docs/recipes/boss.md",),
        "cost model.edgeopt --price-per-hour 0.34 --currency EUR --devices 40 --engineering-hours 20 --rate 90",
    ),
    Quote(
        "EUR /month saved                     {saved} [{saved_low} {saved_high}]",
        ("docs/recipes/boss.md",),
        "cost model.edgeopt --price-per-hour 0.34 --currency EUR --devices 40 --engineering-hours 20 --rate 90",
    ),
    Quote(
        "Measured here: {replayed}x faster than source",
        ("docs/recipes/upgrade.md",),
        "replay model.edgeopt model.onnx -o again.edgeopt --data data.npz --measure",
    ),
)


def pattern(line: str) -> re.Pattern[str]:
    """Returns what finds a quoted line, whatever its figures and spaces are."""
    words = (r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in _NAME.split(line)[::2])
    names = [*_NAME.findall(line), ""]
    return re.compile(
        "".join(f"{part}(?P<{name}>{FIGURE})" if name else part for part, name in zip(words, names, strict=True))
    )


def figures_in(quote: Quote, text: str) -> dict[str, str]:
    """Returns the figures of a quoted line by name; raises LookupError where the line is not in the text."""
    found = pattern(quote.line).search(text)
    if found is None:
        raise LookupError(f"'{quote.line}' is not in:\n{text}")
    return found.groupdict()


def renewed(text: str, quote: Quote, figures: Mapping[str, str]) -> str:
    """Returns the text of a page with other figures in a quoted line; its spaces stay."""
    found = pattern(quote.line).search(text)
    if found is None:
        raise LookupError(f"'{quote.line}' is not in the page.")
    line, begin = found[0], found.start()
    for name in sorted(found.groupdict(), key=found.start, reverse=True):
        line = f"{line[: found.start(name) - begin]}{figures[name]}{line[found.end(name) - begin :]}"
    return f"{text[:begin]}{line}{text[found.end() :]}"


def measured(quotes: Iterable[Quote], folder: Path) -> dict[str, str]:
    """Runs the commands of the quotes in a folder with the sample, and returns all figures by name."""
    shutil.copy(SAMPLE / "digits_cnn.onnx", folder / "model.onnx")
    shutil.copy(SAMPLE / "digits_cnn.npz", folder / "data.npz")
    figures: dict[str, str] = {}
    for quote in quotes:
        if quote.command:
            # The first to measure a figure decides.
            figures = figures_in(quote, _printed(quote.command, folder)) | figures
    return figures


def _printed(command: str, folder: Path) -> str:
    print(f"edgeopt {command}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "edgeopt", *shlex.split(command)],
        cwd=folder,
        env={**os.environ, "COLUMNS": "250", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in _ALLOWED:
        raise SystemExit(f"edgeopt {command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def write(quotes: Iterable[Quote], figures: Mapping[str, str], root: Path) -> None:
    """Puts the figures into all pages."""
    for quote in quotes:
        for name in quote.pages:
            page = root / name
            page.write_text(renewed(page.read_text(encoding="utf-8"), quote, figures), encoding="utf-8")
            print(f"{name}: {_NAME.sub(lambda found: figures[found[1]], quote.line)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="new folder for the bundle")
    kept = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="edgeopt-figures-") as folder:
        figures = measured(QUOTES, Path(folder))
        if kept is not None:
            shutil.copytree(folder, kept)
    write(QUOTES, figures, ROOT)


if __name__ == "__main__":
    main()
