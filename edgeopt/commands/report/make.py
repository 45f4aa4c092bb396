"""Makes a report of a bundle and writes it, whole or not at all."""

from pathlib import Path
from typing import Literal, get_args

import msgspec

from edgeopt.bench.files import writing
from edgeopt.commands.documents import html, markdown
from edgeopt.commands.documents.blocks import Mood, Words
from edgeopt.commands.report.facts import Facts, Reports
from edgeopt.commands.report.gather import gather
from edgeopt.commands.report.sections import sections_of
from edgeopt.commands.report.sections.verdict import good_enough
from edgeopt.commands.report.words import moment
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress, ignore

Format = Literal["html", "markdown", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {
    ".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".json": "json"
}  # fmt: skip
_MOODS: dict[str, Mood] = {"faster": "good", "slower": "bad"}


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
    name, run = facts.deployment.name, facts.deployment.run
    verdict, *rest = sections_of(facts)
    title = f"{name}: {verdict.title}"
    last = f"Made by edgeopt {facts.reported_by} on {moment(facts.reported_at)}."
    if to == "markdown":
        return markdown.page(title, [*verdict.blocks, *rest, Words(last)])
    mood: Mood = _MOODS.get(facts.verdict, "") if good_enough(facts.accuracy) else "bad"
    heading = f"{name} on {run.backend}, for {facts.deployment.target}"
    return html.page(html.Page(title, heading, verdict, mood, tuple(rest), last))
