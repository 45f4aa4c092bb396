import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from edgeopt import errors
from edgeopt.cli import main as edgeopt
from edgeopt_agent import main as agent

SCRIPT = Path(__file__).parents[2] / "packaging" / "make_man.py"
APPLICATIONS = {"edgeopt": edgeopt.application, "edgeopt-agent": agent.application}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, str(SCRIPT), str(folder)], check=True, capture_output=True, timeout=60)
    return {name: folder / f"{name}.1" for name in APPLICATIONS}


def commands(group, path):
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        yield from commands(command, f"{path} {name}") if hasattr(command, "commands") else ()


def plain(page):
    return page.read_text().replace("\\-", "-")


@pytest.mark.parametrize("program", APPLICATIONS)
def test_a_page_has_every_command_and_every_option(pages, program):
    text = plain(pages[program])
    group = typer.main.get_command(APPLICATIONS[program]())
    found = [*commands(group, program)]
    assert [path for path, _ in found if f'.SS "{path}"' not in text] == []
    options = {option for _, command in found for each in command.params for option in each.opts if "--" in option}
    assert len(options) > 10
    assert [option for option in options if not re.search(rf"{option}\b", text)] == []


@pytest.mark.parametrize("program", APPLICATIONS)
def test_a_page_has_the_usual_sections_and_every_exit_code(pages, program):
    text = plain(pages[program])
    sections = re.findall(r"^\.SH (.*)$", text, flags=re.MULTILINE)
    assert sections[:4] == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"]
    exit_status = text[text.index(".SH EXIT STATUS") : text.index(".SH FILES")]
    tree = [errors.EdgeoptError]
    for error in tree:
        tree += error.__subclasses__()
    codes = {str(error.exit_code) for error in tree}
    assert codes <= set(re.findall(r"\d+", exit_status))


@pytest.mark.parametrize("program", APPLICATIONS)
def test_no_line_is_a_request_that_troff_does_not_know(pages, program):
    known = {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR", ".nf", ".fi"}
    lines = pages[program].read_text().splitlines()
    assert {line.split()[0] for line in lines if line.startswith((".", "'"))} <= known


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("program", APPLICATIONS)
def test_groff_has_no_warnings(pages, program):
    command = ["groff", "-man", "-ww", "-z", "-Tutf8", "-K", "utf8", str(pages[program])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_date_of_a_page_is_that_of_its_source(tmp_path):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "edgeopt-agent"]
    environment = {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, check=True, capture_output=True, timeout=60, env=environment)
    assert '"2023-11-14"' in (tmp_path / "edgeopt-agent.1").read_text()


def test_an_unknown_program_is_wrong_usage(tmp_path):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "edgeopt-gui"]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 2
