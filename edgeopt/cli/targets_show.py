"""How people see what `edgeopt targets` and its commands answer."""

import shlex

from edgeopt.commands.documents.blocks import (
    Block,
    Commands,
    Marked,
    Mood,
    Row,
    Table,
    Words,
    columns,
    lines,
    section,
)
from edgeopt.commands.targets import Shown, TargetList, Validated, Written


def show_list(result: TargetList) -> list[Block]:
    rows = []
    for verdict in result.targets:
        state = "chosen" if verdict.chosen else "used" if verdict.used else "fits" if verdict.fits else "no"
        mood: Mood = "strong" if verdict.chosen or verdict.used else "" if verdict.fits else "faint"
        rows.append(Row((verdict.name, state, verdict.title, verdict.reason), mood))
    uses = tuple(Row((use.name, use.title)) for use in result.uses)
    more = (
        ("One in full:", "edgeopt targets show NAME"),
        ("For a use:", "edgeopt optimize MODEL -o OUT --profile NAME"),
    )
    return [
        Table(columns("=Target", "!", "What it is", "Why"), tuple(rows)),
        section("", Table(columns("=For a use", "What it trades"), uses)),
        section("", Commands(more)),
    ]


def show_target(shown: Shown) -> list[Block]:
    from edgeopt.profiles.load import as_toml

    how = " (auto: whatever fits this device)" if shown.automatic else ""
    extends = f"extends {' -> '.join(shown.extends)}{how}" if shown.extends else ""
    # One table for all, so that its columns stand below each other.
    rows = []
    for name in dict.fromkeys(row.table for row in shown.values):
        rows.append(Row((f"[{name}]",), "strong", apart=True))
        for row in (row for row in shown.values if row.table == name):
            origin = Marked(row.origin, "faint")
            if row.items and isinstance(row.value, tuple):
                rows.append(Row((row.key, "", origin, row.why)))
                rows += [Row(("", as_toml(v), "", why)) for v, why in zip(row.value, row.items, strict=True)]
            else:
                rows.append(Row((row.key, as_toml(row.value), origin, row.why)))
    return [
        Words(f"{shown.name}: {shown.title}", "strong"),
        *lines([extends, _fits(shown.fits, shown.reason, shown.lacking_backend)]),
        Table(columns("=", "Value", "From", "Why"), tuple(rows)),
    ]


def show_validated(checked: Validated) -> tuple[Block, ...]:
    extends = f", which extends {' -> '.join(checked.extends)}" if checked.extends else ""
    said = [f"{checked.path} is a valid profile: {checked.name}{extends}."]
    said.append(_fits(checked.fits, checked.reason, checked.lacking_backend))
    if checked.left_out and not checked.lacking_backend:
        names = ", ".join(checked.left_out)
        said.append(f"This version of edgeopt leaves out what it does not have yet: {names}.")
    return lines(said)


def show_written(written: Written) -> tuple[Block, ...]:
    path = shlex.quote(str(written.path))
    use = Commands(
        (
            ("Change what differs, then:", f"edgeopt targets validate {path}"),
            ("Use it with:", f"edgeopt optimize MODEL -o OUT --profile {path}"),
        )
    )
    return Words(f"Wrote {written.path}, which extends {written.extends}."), use


def _fits(fits: bool, reason: str, lacking: str | None) -> str:
    if not fits:
        return f"It does not fit this device: {reason}."
    if lacking:
        return f"It fits this device ({reason}), but its backend {lacking} is not supported yet."
    return f"It fits this device: {reason}."
