"""Every option that a document names is one that the program has: by itself, and in a sentence on a command."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from edgeopt.cli.main import application
from edgeopt_agent.main import application as agent_application

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "examples", "benchmarks")
PAGES = [page for page in ROOT.glob("*.md") if page.name != "CHANGELOG.md"]
PAGES += [page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md"))]
FOREIGN = {
    "--network": "podman", "--cap-add": "podman", "--ulimit": "podman",
    **dict.fromkeys(("--noise", "--starting", "--packaged", "--lengths", "--contest", "--regimes"), "benchmarks"),
}  # fmt: skip
"""Options of other programs, named without them."""
_OPTION = re.compile(r"`(--[a-z][\w-]+)[^`]*`")
_COMMAND = re.compile(r"`(edgeopt(?:-agent)?(?: [a-z][a-z-]*)+)[^`]*`")
_SENTENCE = re.compile(r"(?<=[.:;|]) |\n(?=\s*[-|*\d]|\n)")


@functools.cache
def commands() -> dict[str, frozenset[str]]:
    """The options of each command, with those of the commands below it."""
    found = {}
    for name, made in (("edgeopt", application()), ("edgeopt-agent", agent_application())):
        found |= dict(_options(name, typer.main.get_command(made)))
    return found


def _options(name: str, command: typer.core.TyperCommand) -> Iterator[tuple[str, frozenset[str]]]:
    own = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)} | {"--help"}
    for below, each in getattr(command, "commands", {}).items():
        inside = dict(_options(f"{name} {below}", each))
        yield from inside.items()
        own |= inside[f"{name} {below}"] if name.count(" ") else set()
    yield name, frozenset(own)


def wrong_options(text: str) -> set[str]:
    """Returns the options that no command has, and those that no command of their sentence has."""
    known = frozenset().union(*commands().values())
    wrong = {option for option in _OPTION.findall(text) if option not in known and option not in FOREIGN}
    for sentence in _SENTENCE.split(text):
        named = [each for found in _COMMAND.finditer(sentence) if (each := _command(found[1]))]
        if not named:
            continue
        after = sentence[_COMMAND.search(sentence).start() :]
        theirs = frozenset().union(*(commands()[each] for each in named))
        wrong |= {f"{option} ({', '.join(named)})" for option in _OPTION.findall(after) if option not in theirs}
    return wrong


def _command(words: str) -> str:
    """The longest command that these words begin with; empty for none."""
    parts = words.split()
    names = (" ".join(parts[:count]) for count in range(len(parts), 1, -1))
    return next((name for name in names if name in commands()), "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_documents_name_only_options_that_there_are(page):
    assert wrong_options(page.read_text()) == set()


def test_options_are_found_in_all_places():
    named = [option for page in PAGES for option in _OPTION.findall(page.read_text())]
    assert len(named) > 200
    assert {each for each in FOREIGN if each not in named} == set()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("then try `--rounding` or `--floor 20dB`.", {"--rounding"}),
        ("`edgeopt quantize` takes `--floor`.", set()),
        ("`edgeopt simplify` takes `--floor 20dB`.", {"--floor (edgeopt simplify)"}),
        ("`edgeopt simplify m.onnx` rewrites. A search takes `--floor`.", set()),
        ("| `edgeopt fleet` | all take `--json` |", set()),
    ],
)
def test_wrong_option_is_found(text, wrong):
    assert wrong_options(text) == wrong
