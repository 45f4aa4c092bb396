import os
import pty
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgeopt import events
from edgeopt.bundle.runtime.check import Changed, how_to_refresh
from edgeopt.cli.progress import JsonLines, People, _line, _StatusLine, all_as_called, as_called
from edgeopt.views.blocks import Commands, Row, Table, WordsBlock, columns, section

# Tells one event on a terminal, waits to be told to go on, and ends as a command does.
ON_A_TERMINAL = """
import sys
from edgeopt import events
from edgeopt.cli.progress import People

people = People()
people.emit({event})
sys.stdin.read(1)
people.emit({then})
people.close()
"""


@pytest.fixture
def terminal():
    """What People write to a terminal: until a text appears, and then to the end."""

    def watch(event, until, then="events.Log('info', 'the end')"):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL.format(event=event, then=then)],
            stdin=subprocess.PIPE,
            stderr=theirs,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                "TERM": "xterm",
                "COLUMNS": "120",
            },
        )
        os.close(theirs)
        try:
            with process:
                seen = read(ours, until)
                process.communicate(b"x", timeout=60)
                return seen, read(ours, None)
        finally:
            process.kill()
            os.close(ours)

    return watch


def read(terminal, until, within_s=60):
    """Reads until the text has appeared, or where there is none until nobody writes any more."""
    deadline, seen = time.monotonic() + within_s, ""
    while until is None or until not in seen:
        assert select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0], seen
        try:
            seen += os.read(terminal, 4096).decode(errors="replace")
        except OSError:
            assert until is None, seen
            break
    return seen


def test_programs_get_one_line_an_event(capsys):
    voice = JsonLines()
    told = [events.Progress("load"), events.Log("warning", "two\nlines"), events.Error("bad-model", "No.", "Try.")]
    for event in told:
        voice.emit(event)
    voice.close()
    out, err = capsys.readouterr()
    assert [events.decode(line) for line in out.splitlines()] == told
    assert err == ""


def test_away_from_a_terminal_each_phase_is_one_plain_line(capsys):
    people = People()
    for event in (
        events.Progress("loading", "a.onnx"),
        events.Progress("loading", "b.onnx"),
        events.Progress("measuring", done=1, total=9),
        events.Progress("measuring", done=2, total=9),
    ):
        people.emit(event)
    people.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split("] ")[1] for line in err.splitlines()] == ["loading", "measuring"]
    assert "\x1b" not in err


def test_logs_and_errors_are_sentences(capsys):
    people = People()
    people.emit(events.Log("info", "Reading [bold] names."))
    people.emit(events.Log("warning", "No data."))
    people.emit(events.Error("bad-model", "The model is empty.", "Export it again."))
    people.emit(events.Error("bad-model", "No hint here."))
    assert capsys.readouterr().err.splitlines() == [
        "Reading [bold] names.",
        "warning: No data.",
        "edgeopt: The model is empty.",
        "  Export it again.",
        "edgeopt: No hint here.",
    ]


def test_metrics_and_results_are_not_for_the_status_line(capsys):
    people = People()
    people.emit(events.Metric("latency_ms", 1.0))
    people.emit(events.Result("bench", {}))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_where_the_work_stands(terminal):
    event = "events.Progress('racing', 'conv [fused]', 3, 9, 'int8 1.5x', 600.0)"
    seen, rest = terminal(event, "about 10 min left")
    for part in ("racing", "3/9", "conv [fused]", "best so far: int8 1.5x"):
        assert part in seen
    assert "the end" in rest
    assert "\x1b[?25h" in rest, "the cursor comes back"


def test_the_time_left_passes_while_nothing_is_told():
    event = events.Progress("proving", time_left_s=42.0)
    assert _line(event).endswith("about 42 s left")
    assert _line(event, passed_s=30.0).endswith("about 12 s left")
    assert "left" not in _line(event, passed_s=50.0), "it takes longer, and nobody knows how long"
    heard_s = time.monotonic() - 1000
    assert "left" not in _StatusLine(event, heard_s).__rich__()


def test_a_failure_ends_the_status_line_first(terminal):
    _, rest = terminal("events.Progress('racing')", "racing", "events.Error('bug', 'It broke.', 'Report it.')")
    assert "edgeopt: It broke." in rest
    assert rest.index("\x1b[?25h") < rest.index("edgeopt: It broke.")


def test_people_are_not_told_what_is_for_curves_and_tables(capsys):
    people = People()
    people.emit(events.Metric("latency_ms", 1.0))
    people.emit(events.Standing("a", "racing"))
    people.close()
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")


def test_control_characters_in_messages_do_not_reach_the_terminal(capsys):
    people = People()
    people.emit(events.Log("warning", "'\x1b[2J'"))
    people.emit(events.Error("bad-input", "'\x1b[2J' is a link.\nTwice.", "Not '\x1b]0;x'"))
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert told.count(r"'\x1b[2J'") == 2
    assert "\nTwice." in told
    assert _line(events.Progress("verifying", "\x1b[2J\n")) == r"[bold]verifying[/bold] · \x1b[2J\n"


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
        section("", WordsBlock("List them: edgeopt backends"), Commands((("Again:", "edgeopt bench m"),))),
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
