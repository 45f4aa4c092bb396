"""`edgeopt cache`: what earlier searches left, and clearing it."""

from typing import TYPE_CHECKING

import typer

from edgeopt import units
from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.pipeline.cache.request import ClearRequest
from edgeopt.views.blocks import Block, Row, Table, WordsBlock, columns, section

if TYPE_CHECKING:
    from edgeopt.pipeline.cache.user import Cleared, Listing


def _cache(context: typer.Context) -> None:
    """List or clear the search cache.

    \b
    EDGEOPT_CACHE sets the folder, EDGEOPT_CACHE_LIMIT the maximum size (500MB; 0 turns it off).
    All commands take --json.

    \b
    Examples:
      edgeopt cache list
      edgeopt cache clear --older-than 30
    """
    program.help_without_command(context)


def list_(json: JsonFlag = False) -> None:
    """List entries, most recently used first, with size, age and limit.

    \b
    Examples:
      edgeopt cache list
      edgeopt cache list --json | jq .data.size_bytes
    """
    from edgeopt.pipeline.cache.user import listing

    execute("cache", lambda _emit: listing(), show_listing, json)


@asks(ClearRequest)
def clear(request: ClearRequest, json: JsonFlag = False) -> None:
    """Drop the entries of earlier searches.

    \b
    Examples:
      edgeopt cache clear
      edgeopt cache clear --older-than 30
      edgeopt cache clear --all
    """
    from edgeopt.pipeline.cache.user import clear as drop

    execute("cache-clear", lambda _emit: drop(request.older_than, request.all), show_cleared, json)


def show_listing(found: "Listing") -> list[Block]:
    from datetime import UTC, datetime

    from edgeopt.views.words import ago

    now = datetime.now(UTC)
    rows = []
    for entry in found.entries:
        made, used = (ago((now - at).total_seconds()) for at in (entry.made_at, entry.used_at))
        rows.append(Row((entry.kind, entry.title, made, used, units.size(entry.size_bytes))))
    rows += [Row(("other", other.title, "", "", units.size(other.size_bytes))) for other in found.others]
    limit = (
        f" of {units.size(found.limit_bytes)} at most"
        if found.limit_bytes
        else "; nothing is kept (the limit is 0)"
    )
    total = f"{_count(len(found.entries))} of searches in {found.folder}: {units.size(found.size_bytes)}{limit}."
    table = Table(columns("!kind", "what", "made", "last used", ">size"), tuple(rows))
    return [table, section("", WordsBlock(total))] if rows else [WordsBlock(total)]


def show_cleared(done: "Cleared") -> list[Block]:
    also = "".join(f", {other.title}" for other in done.others)
    dropped = f"Dropped {_count(len(done.entries))} of searches{also}"
    return [WordsBlock(f"{dropped}: {units.size(done.freed_bytes)} are free again.")]


def _count(number: int) -> str:
    return f"{number} entr{'y' if number == 1 else 'ies'}"


cache = program.application(_cache, list_, clear)
