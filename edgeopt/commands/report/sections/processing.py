"""What is done before and after the model, and how long it takes beside the inference."""

from edgeopt.bundle.deployment import Part, Tensor, said_of
from edgeopt.commands.documents.blocks import Row, Section, Table, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.facts import Facts


def section(facts: Facts) -> Section | None:
    told = facts.deployment.processing
    if told is None:
        return None
    times = told.times
    rows = [
        _row("before", told.pre, times.pre_ms if times else None),
        Row(
            ("inference", "the model", "", "", words.milliseconds(times.inference_ms if times else None)), "strong"
        ),
        _row("after", told.post, times.post_ms if times else None),
    ]
    caption = "It is not part of the inference, which all other figures measure."
    if times is not None:
        caption += (
            f" Timed in one process, one stage after the other, medians of {times.runs} runs; caches are "
            "colder there than in inference alone."
        )
    titles = ("", "what", "takes", "gives", ">time")
    table = Table(columns(*titles), tuple(row for row in rows if row is not None), caption)
    return Section("processing", "Before and after the model", (table,))


def _row(name: str, part: Part | None, time_ms: float | None) -> Row | None:
    if part is None:
        return None
    return Row((name, said_of(part), _listed(part.inputs), _listed(part.outputs), words.milliseconds(time_ms)))


def _listed(tensors: list[Tensor]) -> str:
    return "; ".join(f"{each.name} {each.dtype} {words.dimensions(each.shape)}" for each in tensors)
