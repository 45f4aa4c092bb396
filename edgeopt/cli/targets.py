"""`edgeopt targets`: every target, and whether it fits; one in full; and profiles of one's own."""

from collections.abc import Callable

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.commands.targets import ListRequest, NewRequest, ShowRequest, ValidateRequest


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
    from edgeopt.cli.targets_show import show_list
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
    from edgeopt.cli.targets_show import show_target
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
    from edgeopt.cli.targets_show import show_validated
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
    from edgeopt.cli.targets_show import show_written
    from edgeopt.commands.targets import begin

    execute("targets-new", lambda _: begin(request), show_written, json)


# In the order of work, which is the order in `--help`.
COMMANDS: tuple[Callable[..., None], ...] = (show, validate, new)

targets = program.application(_targets)
for command in COMMANDS:
    program.add(targets, command.__name__, command)
