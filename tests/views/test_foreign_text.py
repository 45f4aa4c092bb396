"""Text from devices, servers, plug-ins and models through every field of the records that people see."""

import io
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from edgeopt import events
from edgeopt.cli import backends, fleet, fleet_rollout_show, fleet_show, passes, plugins
from edgeopt.cli.console import show_outcome
from edgeopt.cli.progress import JsonLines, People, _line
from edgeopt.cli.watch import LiveTable
from edgeopt.commands.backends import BackendList
from edgeopt.commands.passes import PassList
from edgeopt.commands.plugins import PluginList
from edgeopt.errors import LONGEST_TEXT, LONGEST_WORD, legible
from edgeopt.fleet.devices import FleetDevices
from edgeopt.fleet.discovery import DiscoveredAgents
from edgeopt.fleet.monitor import WatchedAgent
from edgeopt.fleet.pairing import Paired
from edgeopt.fleet.records import DeployPlan, FleetDeployment, Releases, Removed, Status
from edgeopt.fleet.rollout_commands import RolloutList, RolloutReport
from edgeopt.hw.device import Device
from edgeopt.views import device, html, markdown
from edgeopt.views.blocks import (
    Chart,
    Commands,
    Drawing,
    Figure,
    Figures,
    Folded,
    Listed,
    Marked,
    Picture,
    Row,
    Table,
    WordsBlock,
    columns,
    section,
)
from edgeopt.views.markup import tag
from edgeopt.views.markup import text as markup_text

EVIL = "\x1b]0;x\x07\x1b[2J\r\n\x7f\x9b31m\u202e\u2066\u2028" + "W" * 100_000
OWN = {"url": "127.0.0.1:8080", "measured_at": "2026-01-01T00:00:00+00:00"}
"""Fields that edgeopt itself fills, and reads again while it shows them."""
SHOWS = (
    (Status, fleet_show.show_status),
    (Releases, fleet_show.show_releases),
    (FleetDeployment, fleet_show.show_deployment),
    (DeployPlan, fleet_show.show_deployment),
    (Removed, fleet_show.show_removed),
    (WatchedAgent, fleet_show.show_watched),
    (FleetDevices, fleet_rollout_show.show_devices),
    (DiscoveredAgents, fleet_rollout_show.show_discovered),
    (RolloutReport, fleet_rollout_show.show_rollout),
    (RolloutList, fleet_rollout_show.show_rollout),
    (Paired, fleet._show_paired),
    (PluginList, plugins.show),
    (BackendList, backends.show_backends),
    (PassList, passes.show),
    (Device, device.show),
)


def evil(kind):
    """A value of a type, with hostile text wherever it can hold any."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return evil(arguments[0])
    if origin in {typing.Union, types.UnionType}:
        return evil(str if str in arguments else next(each for each in arguments if each is not type(None)))
    if origin is typing.Literal:
        return arguments[-1]
    if origin is tuple:
        return tuple(evil(each) for each in arguments if each is not ...)
    if origin in {list, Sequence}:
        return [evil(arguments[0])]
    if origin in {dict, Mapping}:
        return {evil(arguments[0]): evil(arguments[1])}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(**{name: OWN.get(name) or evil(hint) for name, hint in hints(kind).items()})
    return {str: EVIL, Path: Path(EVIL), bool: True}.get(kind) or kind(1)


def hints(kind):
    return {
        name: hint
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
        if name in kind.__struct_fields__
    }


def on_terminal(show, record):
    out = io.StringIO()
    show_outcome(show, record, Console(file=out, width=140, highlight=False, color_system=None))
    return out.getvalue()


WRITERS = {
    "terminal": on_terminal,
    "markdown": lambda show, record: markdown.page(EVIL, show(record)),
    "page": lambda show, record: html.page(
        html.Page(EVIL, EVIL, section(EVIL, *show(record)), "", (section(EVIL, *show(record)),), EVIL)
    ),
    "notebook": lambda show, record: html.fragment(show(record)),
}


def is_harmless(text):
    return all(each.isprintable() or each == "\n" for each in text)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(("kind", "show"), SHOWS, ids=lambda each: each.__name__)
def test_no_field_of_a_record_controls_or_floods_a_terminal_or_report(kind, show, writer):
    text = WRITERS[writer](show, evil(kind))
    assert "WWW" in text
    assert is_harmless(text)
    assert len(text) < 170_000


BLOCKS = (
    WordsBlock(EVIL),
    Listed((EVIL, EVIL)),
    Table(columns(f"={EVIL}", EVIL), (Row((EVIL, Marked(EVIL))),), EVIL),
    Figures((Figure(EVIL, EVIL, EVIL),)),
    Chart(EVIL, EVIL, lambda width: Picture(width, 1.0, tag("text", markup_text(EVIL[:20]))), EVIL),
    Drawing(lambda _width, _ascii_only: [EVIL[:20]]),
    Folded(EVIL, (WordsBlock(EVIL),)),
    section(EVIL, section(EVIL, WordsBlock(EVIL))),
)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("block", BLOCKS, ids=lambda each: type(each).__name__)
def test_no_text_of_a_block_controls_or_floods_a_terminal_or_report(block, writer):
    text = WRITERS[writer](lambda shown: [shown], block)
    assert is_harmless(text)
    assert len(text) < 40_000


@pytest.mark.parametrize("writer", WRITERS)
def test_command_is_escaped_and_never_cut(writer):
    line = f"edgeopt bench \x1b{'W' * 9000}"
    text = WRITERS[writer](lambda shown: [shown], Commands(((EVIL, line),)))
    assert is_harmless(text)
    assert "W" * 9000 in text


def test_long_words_keep_both_ends_and_long_texts_their_begin():
    assert legible("a" + "-" * 1000 + "z") == f"a{'-' * (LONGEST_WORD // 2 - 2)}…{'-' * (LONGEST_WORD // 2 - 1)}z"
    text = legible("word " * 10_000)
    assert (len(text), text[:5], text[-1]) == (LONGEST_TEXT, "word ", "…")
    assert legible(text) == text
    assert legible("two\nlines", line_ends=True) == "two\nlines"


@pytest.mark.parametrize(
    "event",
    [
        events.Progress(EVIL, EVIL, best=EVIL),
        events.Log("warning", EVIL),
        events.Error("bug", EVIL, EVIL),
    ],
    ids=lambda each: type(each).__name__,
)
def test_events_from_elsewhere_control_no_terminal(event, capsys):
    People().emit(event)
    printed = capsys.readouterr().err
    assert "WWW" in printed
    assert is_harmless(printed)
    assert len(printed) < 10_000
    assert is_harmless(_line(events.Progress(EVIL, EVIL, best=EVIL)))


def test_json_lines_are_ascii_where_text_is_not_printable_and_hold_the_same(capsys):
    event = events.Log("info", f"{EVIL}\U000e0001ä")
    JsonLines().emit(event)
    line = capsys.readouterr().out
    assert is_harmless(line)
    assert line.count("\n") == 1
    assert "ä" in line
    assert events.decode(line) == event


def test_live_table_shows_no_control_characters():
    out = io.StringIO()
    table = LiveTable(Console(file=out, width=140, highlight=False, color_system=None))
    table.update(events.Progress(EVIL, EVIL), events.ignore)
    Console(file=out, color_system=None).print(table.render())
    assert "WWW" in out.getvalue()
    assert is_harmless(out.getvalue())
