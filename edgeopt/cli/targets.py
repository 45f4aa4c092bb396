"""`edgeopt targets`: every target, and whether it fits; one in full; and profiles of one's own."""

from typing import TYPE_CHECKING

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.targets import ListRequest, NewRequest, ShowRequest, ValidateRequest
from edgeopt.platform.command_line import quote_word
from edgeopt.views.blocks import (
    Block,
    Commands,
    Marked,
    Mood,
    Row,
    Table,
    WordsBlock,
    columns,
    lines,
    section,
)

if TYPE_CHECKING:
    from edgeopt.commands.targets import Shown, TargetList, Validated, WrittenProfile


def show_list(result: "TargetList") -> list[Block]:
    rows = []
    for verdict in result.targets:
        state = "chosen" if verdict.chosen else "used" if verdict.used else "fits" if verdict.fits else "no"
        mood: Mood = "strong" if verdict.chosen or verdict.used else "" if verdict.fits else "faint"
        rows.append(Row((verdict.name, state, verdict.title, verdict.reason), mood))
    uses = tuple(Row((use.name, use.title)) for use in result.uses)
    more = (
        ("Show a profile:", "edgeopt targets show NAME"),
        ("Optimize for a use case:", "edgeopt optimize MODEL -o OUT --profile NAME"),
    )
    return [
        Table(columns("=Target", "!", "Description", "Reason"), tuple(rows)),
        section("", Table(columns("=Use case", "Trade-off"), uses)),
        section("", Commands(more)),
    ]


def show_target(shown: "Shown") -> list[Block]:
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
        WordsBlock(f"{shown.name}: {shown.title}", "strong"),
        *lines([extends, _fits(shown.fits, shown.reason, shown.lacking_backend)]),
        Table(columns("=", "Value", "From", "Why"), tuple(rows)),
    ]


def show_validated(checked: "Validated") -> tuple[Block, ...]:
    extends = f", which extends {' -> '.join(checked.extends)}" if checked.extends else ""
    texts = [f"{checked.path} is a valid profile: {checked.name}{extends}."]
    texts.append(_fits(checked.fits, checked.reason, checked.lacking_backend))
    if checked.left_out and not checked.lacking_backend:
        names = ", ".join(checked.left_out)
        texts.append(f"This version of edgeopt leaves out what it does not have yet: {names}.")
    return lines(texts)


def show_written(written: "WrittenProfile") -> tuple[Block, ...]:
    path = quote_word(str(written.path))
    use = Commands(
        (
            ("Change what differs, then:", f"edgeopt targets validate {path}"),
            ("Use it with:", f"edgeopt optimize MODEL -o OUT --profile {path}"),
        )
    )
    return WordsBlock(f"Wrote {written.path}, which extends {written.extends}."), use


def _fits(fits: bool, reason: str, lacking: str | None) -> str:
    if not fits:
        return f"It does not fit this device: {reason}."
    if lacking:
        return f"It fits this device ({reason}), but its backend {lacking} is not supported yet."
    return f"It fits this device: {reason}."


@asks(ListRequest)
def _targets(request: ListRequest, context: typer.Context, json: JsonFlag = False) -> None:
    """List target profiles: the one chosen for this device, and why others do not fit.

    \b
    A target profile is a TOML file that says how to optimize for a class of devices. The table also
    lists profiles for a use case, which extend the target that fits.

    \b
    Examples:
      edgeopt targets
      edgeopt targets --device device.json            for another device
      edgeopt targets show cpu-avx2                   each value, its source and its reason
      edgeopt targets new my-camera --from realtime   a profile of your own
      edgeopt targets validate my-camera.toml
    """
    from edgeopt.commands.targets import list_targets

    name = context.invoked_subcommand
    if name is None:
        execute("targets", lambda _: list_targets(request), show_list, json)
    elif request.device or request.root or json:
        raise typer.BadParameter(f"Options belong behind the command: edgeopt targets {name} ... --json")


@asks(ShowRequest)
def show(request: ShowRequest, json: JsonFlag = False) -> None:
    """Show a profile: each value, the file it comes from, and the reason.

    \b
    Examples:
      edgeopt targets show cpu-avx512-vnni
      edgeopt targets show realtime                 combined with the target that fits this device
      edgeopt targets show my-camera.toml --json
    """
    from edgeopt.commands.targets import look_up

    execute("targets-show", lambda _: look_up(request), show_target, json)


@asks(ValidateRequest)
def validate(request: ValidateRequest, json: JsonFlag = False) -> None:
    """Check a profile, and say what is wrong and how to correct it.

    \b
    Exit code 0: valid, with a note whether it fits this device; 3: not valid.

    \b
    Examples:
      edgeopt targets validate my-camera.toml
      edgeopt targets validate my-camera.toml --device device.json --json
    """
    from edgeopt.commands.targets import check

    execute("targets-validate", lambda _: check(request), show_validated, json)


@asks(NewRequest)
def new(request: NewRequest, json: JsonFlag = False) -> None:
    """Create a profile: all values of another one, commented out, each with its reason.

    \b
    Examples:
      edgeopt targets new my-camera
      edgeopt targets new my-camera --from realtime -o profiles/my-camera.toml
      edgeopt targets new my-fleet --from auto        extends the target that fits each device
    """
    from edgeopt.commands.targets import begin

    execute("targets-new", lambda _: begin(request), show_written, json)


targets = program.application(_targets, show, validate, new)
