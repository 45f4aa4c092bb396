"""The stairs from the source to the result: what each step brought and what it cost."""

from edgeopt.commands.documents.blocks import Block, Chart, Picture, Row, Section, Table, Words, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.charts import bars
from edgeopt.commands.report.charts.bars import Bar, Group
from edgeopt.commands.report.facts import Facts, Stage


def section(facts: Facts) -> Section | None:
    stages = facts.stages
    if not stages:
        return None
    if len(stages) == 1:
        said = "The result is the unchanged source model, so there are no steps."
        return Section("stages", "Stages", (Words(said),))
    blocks: list[Block] = []
    if any(stage.time_ms for stage in stages):
        blocks.append(_chart(stages, _is_under_load(facts)))
    blocks.append(_table(stages))
    return Section("stages", "Stages", tuple(blocks))


def _is_under_load(facts: Facts) -> bool:
    evidence = facts.deployment.evidence
    return evidence is not None and evidence.load is not None


def _chart(stages: tuple[Stage, ...], under_load: bool) -> Chart:
    known = [stage for stage in stages if stage.time_ms]
    groups = [Group(stage.name, (_bar(stage),)) for stage in known]

    def draw(width: int) -> Picture:
        return bars.draw(groups, width)

    said = "; ".join(f"{stage.name}: {words.milliseconds(stage.time_ms)}" for stage in known)
    caption = (
        "Source and result were measured interleaved at the end. The steps between them raced for a "
        "few rounds: their time is the baseline's divided by the ratio in these rounds, with its "
        "interval."
    )
    what = "Time by sample, under load" if under_load else "Time of one run"
    return Chart(f"{what}, step by step", f"{what} by stage: {said}.", draw, caption)


def _bar(stage: Stage) -> Bar:
    value, found = stage.time_ms or 0.0, stage.ratio
    said = words.milliseconds(value) + (f" · {words.ratio(found.median)}" if found else "")
    class_ = "base" if found is None else "result" if stage.proved else "between"
    if found is None or found.low <= 0:
        return Bar(value, class_, said)
    return Bar(value, class_, said, value * found.median / found.high, value * found.median / found.low)


def _table(stages: tuple[Stage, ...]) -> Table:
    rows = [
        Row(
            (
                stage.name,
                stage.what,
                words.milliseconds(stage.time_ms),
                _ratio(stage),
                words.interval(stage.ratio),
                words.size(stage.size_bytes),
                words.mebibytes(stage.peak_bytes),
                "the reference" if place == 0 else words.decibels(stage.snr_db),
            ),
            "strong" if place == len(stages) - 1 else "",
        )
        for place, stage in enumerate(stages)
    ]
    titles = ("stage", "what", ">time", ">speed", ">interval", ">size", ">peak memory", ">accuracy")
    return Table(columns(*titles), tuple(rows))


def _ratio(stage: Stage) -> str:
    return words.ratio(stage.ratio.median) if stage.ratio else "1.00x" if stage.proved else words.UNKNOWN
