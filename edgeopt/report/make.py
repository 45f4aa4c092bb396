"""Makes a report of a bundle and writes it, whole or not at all."""

from pathlib import Path
from typing import Literal, get_args

import msgspec

from edgeopt.bench.files import writing
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.report.facts import Facts, Reports
from edgeopt.report.gather import gather
from edgeopt.report.html import document as as_html
from edgeopt.report.markdown import document as as_markdown
from edgeopt.report.sections import sections_of

Format = Literal["html", "markdown", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {
    ".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".json": "json"
}  # fmt: skip


def report(
    bundle: Path,
    out: Path,
    to: Format | None = None,
    *,
    source: Path | None = None,
    nodes: bool | None = None,
    emit: Emit = ignore,
) -> Reports:
    """The bundle is only read; `to` is told by the ending of `out` where it is not given."""
    chosen = to or format_of(out)
    facts = gather(bundle, source=source, nodes=nodes, emit=emit)
    emit(Progress("writing the report", out.name))
    content = written(facts, chosen).encode()
    with writing(out) as file:
        file.write(content)
    return Reports(str(out), chosen, len(content), facts.verdict, facts.summary, facts.unknown)


def format_of(out: Path) -> Format:
    """By the ending; UsageError where that says nothing."""
    found = _ENDINGS.get(out.suffix.lower())
    if found is None:
        raise UsageError(
            f"The ending of '{out.name}' does not say what the report is to be.",
            f"Name it .html, .md or .json, or add --to {'|'.join(FORMATS)}.",
        )
    return found


def written(facts: Facts, to: Format) -> str:
    """The whole document."""
    if to == "json":
        return msgspec.json.format(msgspec.json.encode(facts), indent=1).decode() + "\n"
    sections = sections_of(facts)
    return as_html(facts, sections) if to == "html" else as_markdown(facts, sections)
