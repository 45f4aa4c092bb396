"""`edgeopt profile`: deployment profiles as files, and what differs between two."""

from typing import TYPE_CHECKING

import typer

from edgeopt import units
from edgeopt.bundle.request import ProfileDiffRequest, ProfileExportRequest, ProfileImportRequest
from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.views.blocks import Block, Column, Commands, Listed, Row, Table, WordsBlock, columns, lines

if TYPE_CHECKING:
    from edgeopt.commands.profile import Difference, ExportedProfile, Imported


def _profile(context: typer.Context) -> None:
    """Export, check or compare deployment profiles.

    \b
    A deployment profile records how a bundle was made and what was proved. With the source model, it
    is enough to make the bundle again: see `edgeopt replay`. Target profiles, which say how to
    search, are listed by `edgeopt targets`. All commands take --json.

    \b
    Examples:
      edgeopt profile export model.edgeopt -o model.toml
      edgeopt profile import model.toml model.onnx
      edgeopt profile diff old.edgeopt new.edgeopt
    """
    program.help_without_command(context)


@asks(ProfileExportRequest)
def export(request: ProfileExportRequest, json: JsonFlag = False) -> None:
    """Write the deployment profile of a bundle as one file.

    \b
    The file holds the calibration results, so a replay needs only the source model. It holds no
    golden samples: a replay takes them from --data, or generates them.

    \b
    Examples:
      edgeopt profile export model.edgeopt -o model.toml
      edgeopt replay model.toml model.onnx -o again.edgeopt
    """
    from edgeopt.commands.profile import export as exported

    execute("profile-export", lambda _emit: exported(request.bundle, request.out), show_exported, json)


@asks(ProfileImportRequest)
def import_(request: ProfileImportRequest, json: JsonFlag = False) -> None:
    """Check a deployment profile and show what a replay would do on this device.

    \b
    Examples:
      edgeopt profile import model.toml
      edgeopt profile import model.toml model.onnx --json | jq -r .data.command
    """
    from edgeopt.commands.profile import preview_import

    execute("profile-import", lambda _emit: preview_import(request.profile, request.model), show_imported, json)


@asks(ProfileDiffRequest)
def diff(request: ProfileDiffRequest, json: JsonFlag = False) -> None:
    """Show the differences between two deployments: backend, options, steps, schemes, evidence.

    \b
    Examples:
      edgeopt profile diff old.edgeopt new.edgeopt
      edgeopt profile diff model.toml model.edgeopt --json | jq .data.rows
    """
    from edgeopt.commands.profile import difference

    execute("profile-diff", lambda _emit: difference(request.first, request.second), show_difference, json)


def show_exported(result: "ExportedProfile") -> list[Block]:
    return [
        WordsBlock(f"{result.profile}: {units.size(result.size_bytes)}, from {result.bundle}"),
        Listed(tuple(result.steps), numbered=True),
        WordsBlock(result.summary),
    ]


def show_imported(result: "Imported") -> list[Block]:
    checked = "the given model" if result.source_checked else "not checked here"
    found: list[Block] = [
        WordsBlock(f"{result.name} on {result.backend}, for the target {result.target}"),
        Listed(tuple(result.steps), numbered=True),
        Listed(tuple(result.processing)),
        WordsBlock(f"Proved then: {result.summary}"),
        WordsBlock(f"Source model: {result.source} ({result.source_digest[:12]}...), {checked}."),
    ]
    found += lines([result.unavailable])
    if result.changes:
        found.append(WordsBlock("This device differs from the one that it was proved on:"))
        found.append(Listed(tuple(f"{each.part}: {each.then}  ->  {each.now}" for each in result.changes)))
    return [*found, Commands((("Make the bundle:", result.command),))]


def show_difference(result: "Difference") -> list[Block]:
    rows = tuple(Row((row.part, row.what, row.first, row.second)) for row in result.rows)
    titles = (*columns("!part", "what"), Column(result.first), Column(result.second))
    return [*([Table(titles, rows)] if rows else []), WordsBlock(result.summary)]


profile = program.application(_profile, export, import_, diff)
