import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.bundle.runtime.check import Changed, how_to_refresh
from edgeopt.cli.progress import all_as_called, as_called
from edgeopt.commands.documents.blocks import Commands, Row, Table, Words, columns, section

SCRIPT = "from edgeopt.cli.main import main; main()"


@pytest.fixture
def called(tmp_path, monkeypatch):
    """As if a script in a folder with a space in its name ran."""

    def begin(name="edgeopt", on_path=False):
        folder = tmp_path / "my env"
        folder.mkdir(exist_ok=True)
        script = folder / name
        script.write_text("#!/bin/sh\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "argv", [str(script)])
        monkeypatch.setenv("PATH", str(folder) if on_path else str(tmp_path))
        return f"'{script}'"

    return begin


def test_a_command_that_path_does_not_find_is_printed_with_its_place(called):
    typed = called()
    assert as_called("`edgeopt passes` lists all of them.") == f"`{typed} passes` lists all of them."
    assert as_called("See: edgeopt --help, or edgeopt COMMAND --help") == (
        f"See: {typed} --help, or {typed} COMMAND --help"
    )
    assert as_called("edgeopt bench a.edgeopt --against a.onnx").startswith(f"{typed} bench a.edgeopt")


def test_a_command_that_path_finds_keeps_its_name(called):
    called(on_path=True)
    assert as_called("`edgeopt passes` lists all of them.") == "`edgeopt passes` lists all of them."


def test_only_commands_change(called):
    called()
    kept = (
        "This edgeopt reads schema 2.",
        "edgeopt optimizes models",
        "my.edgeopt run",
        "pip install 'edgeopt[fp]'",
    )
    assert [as_called(each) for each in kept] == list(kept)
    on_the_device = "Deploy with: edgeopt-agent deploy BUNDLE"
    assert as_called(on_the_device) == on_the_device


def test_the_agent_prints_its_own_commands_as_it_was_called(called):
    typed = called("edgeopt-agent")
    assert (
        as_called("See which there are: edgeopt-agent releases --x")
        == f"See which there are: {typed} releases --x"
    )
    assert as_called("`edgeopt-agent gc` may help.") == f"`{typed} gc` may help."
    assert as_called("edgeopt-agent, edgeopt fleet or curl.") == "edgeopt-agent, edgeopt fleet or curl."


def test_the_interpreter_is_named_where_it_ran_the_module(monkeypatch):
    import edgeopt

    monkeypatch.setattr(sys, "argv", [str(Path(edgeopt.__file__).with_name("__main__.py"))])
    assert as_called("`edgeopt passes`") == f"`{shlex.quote(sys.executable)} -m edgeopt passes`"


def test_all_texts_of_blocks_change(called):
    typed = called()
    blocks = [
        section("", Words("List them: edgeopt backends"), Commands((("Again:", "edgeopt bench m"),))),
        Table(columns("how"), (Row(("edgeopt probe --deep",)),)),
    ]
    (part, table) = all_as_called(blocks)
    assert part.blocks[0].text == f"List them: {typed} backends"
    assert part.blocks[1].lines == (("Again:", f"{typed} bench m"),)
    assert table.rows[0].cells == (f"{typed} probe --deep",)


def test_a_hint_of_the_program_runs_as_printed(tmp_path):
    """The script of an environment that is not on the PATH."""
    script = tmp_path / "edgeopt"
    # As pip writes it: the first line cannot name an interpreter in a folder with a space.
    script.write_text(f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n{SCRIPT}\n")
    script.chmod(0o755)
    done = subprocess.run([script, "nonsense"], capture_output=True, text=True, check=False, env={"PATH": "/bin"})
    assert done.returncode == 2
    assert f"See: {script} --help" in done.stderr


def test_paths_with_spaces_are_quoted_in_commands():
    changed = (Changed("cpu", "a", "b"),)
    assert "edgeopt replay 'my model.edgeopt' MODEL" in how_to_refresh(changed, "my model.edgeopt")
