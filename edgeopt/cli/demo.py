"""`edgeopt demo`: the whole story on the built-in sample."""

from typing import TYPE_CHECKING

import msgspec

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.demo import DemoRequest
from edgeopt.platform.command_line import join_words
from edgeopt.views.blocks import Block, Commands, Table, WordsBlock, columns, lines, rows, section

if TYPE_CHECKING:
    from edgeopt.commands.demo import Demo


@asks(DemoRequest)
def demo(request: DemoRequest, json: JsonFlag = False) -> None:
    """Run a complete search on a built-in sample, in about a minute.

    \b
    The sample is a small network that reads handwritten digits, with 256 pictures. The demo probes
    the device, chooses a target, rewrites the model, races candidates, and writes and loads a
    bundle.

    \b
    Examples:
      edgeopt demo
      edgeopt demo -o /tmp/digits.edgeopt --json
    """

    from edgeopt.commands.demo import demo

    execute("demo", lambda emit: demo(request, emit), show, json)


def show(result: "Demo") -> list[Block]:
    """Returns the device, the candidates, the gains with their reasons, and how to use the bundle."""
    from edgeopt.views.outcome import show as show_outcome

    device, outcome = result.device, result.outcome
    where = (
        f"{device.cpu.model or 'unknown CPU'}, {device.cpu.simd_level}, {device.limits.usable_cores} usable cores"
    )
    gains = rows(*((gain.what, gain.before, gain.after, gain.why) for gain in result.gains))
    again = join_words(["edgeopt", "bench", outcome.bundle, "--against", result.model])
    use = (
        ("Use it from Python:", f'session = edgeopt.load("{outcome.bundle}")'),
        ("", 'digits = session.run({"image": picture})'),
        ("Measure it again:", again),
    )
    losses = (
        f"Worse than before: {loss.what}, {loss.after} instead of {loss.before} ({loss.why})."
        for loss in result.losses
    )
    return [
        WordsBlock(f"Device: {where}; target {outcome.target}"),
        section("", *show_outcome(msgspec.structs.replace(outcome, is_cached=False))),  # it has no --pick
        section("", Table(columns("what was gained", "before", "after", "why"), gains) if gains else None),
        section("", WordsBlock(result.accuracy), *lines(losses)),
        section("", Commands(use)),
        section("", WordsBlock(f"Full report: {result.report}")),
    ]
