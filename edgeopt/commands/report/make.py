"""Makes a report of a bundle and writes it, whole or not at all."""

import msgspec

from edgeopt.commands.bench.saved import check_place
from edgeopt.commands.documents import html, markdown
from edgeopt.commands.documents.blocks import Mood, Words
from edgeopt.commands.report.facts import Facts, Reports
from edgeopt.commands.report.gather import gather
from edgeopt.commands.report.request import Format, Request, format_of
from edgeopt.commands.report.sections import sections_of
from edgeopt.commands.report.sections.verdict import good_enough
from edgeopt.commands.report.words import moment
from edgeopt.events import Emit, Progress, ignore
from edgeopt.measure.files import writing

_MOODS: dict[str, Mood] = {"faster": "good", "slower": "bad"}


def report(request: Request, emit: Emit = ignore) -> Reports:
    """The bundle is only read."""
    chosen, out = format_of(request), request.out
    check_place(out, "The report")
    facts = gather(request.bundle, source=request.model, nodes=request.nodes, emit=emit)
    emit(Progress("writing the report", out.name))
    content = written(facts, chosen).encode()
    with writing(out) as file:
        file.write(content)
    return Reports(str(out), chosen, len(content), facts.verdict, facts.summary, facts.unknown)


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
