"""`edgeopt targets`: every target, and whether it fits; one in full; and profiles of one's own."""

from collections.abc import Callable

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.commands.targets.request import ListRequest, NewRequest, ShowRequest, ValidateRequest


@asks(ListRequest)
def _targets(request: ListRequest, context: typer.Context, json: JsonFlag = False) -> None:
    """Lists every target: the one chosen for this device, those that fit, and why the others do not.

    \b
    A target is a class of devices with one way to optimize for it: a TOML file in profiles/.
    The table also names the profiles for a use, which extend whatever target fits.

    \b
    Examples:
      edgeopt targets
      edgeopt targets --json | jq -r .data.chosen
      edgeopt targets --device device.json             plan for a device that is not here
      edgeopt targets show cpu-avx2                    each value, where it comes from, and why
      edgeopt targets new my-camera --from realtime    a profile of your own
      edgeopt targets validate my-camera.toml
    """
    from edgeopt.cli.targets_show import show_list
    from edgeopt.commands.targets.targets import list_targets

    name = context.invoked_subcommand
    if name is None:
        execute("targets", lambda _: list_targets(request), show_list, json)
    elif request.device or request.root or json:
        raise typer.BadParameter(f"Options belong behind the command: edgeopt targets {name} ... --json")


@asks(ShowRequest)
def show(request: ShowRequest, json: JsonFlag = False) -> None:
    """Show one target or profile in full: each value, which file it comes from, and why it is so.

    \b
    Examples:
      edgeopt targets show cpu-avx512-vnni
      edgeopt targets show realtime                 with the target that fits this device filled in
      edgeopt targets show my-camera.toml --json
    """
    from edgeopt.cli.targets_show import show_target
    from edgeopt.commands.targets.targets import look_up

    execute("targets-show", lambda _: look_up(request), show_target, json)


@asks(ValidateRequest)
def validate(request: ValidateRequest, json: JsonFlag = False) -> None:
    """Check a profile of your own: one sentence names what is wrong, and what would be right.

    \b
    Exit code 0: it is valid, and it is said whether it fits this device; 3: it is not.

    \b
    Examples:
      edgeopt targets validate my-camera.toml
      edgeopt targets validate my-camera.toml --device device.json --json
    """
    from edgeopt.cli.targets_show import show_validated
    from edgeopt.commands.targets.targets import check

    execute("targets-validate", lambda _: check(request), show_validated, json)


@asks(NewRequest)
def new(request: NewRequest, json: JsonFlag = False) -> None:
    """Write a profile of your own: all values of another one, commented out, each with its reason.

    \b
    Examples:
      edgeopt targets new my-camera
      edgeopt targets new my-camera --from realtime -o profiles/my-camera.toml
      edgeopt targets new my-fleet --from auto        whatever target fits, on each device
    """
    from edgeopt.cli.targets_show import show_written
    from edgeopt.commands.targets.targets import begin

    execute("targets-new", lambda _: begin(request), show_written, json)


# In the order of work, which is the order in `--help`.
COMMANDS: tuple[Callable[..., None], ...] = (show, validate, new)

targets = program.application(_targets)
for command in COMMANDS:
    program.add(targets, command.__name__, command)
