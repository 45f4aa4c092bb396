"""Runs the blocks of a page of docs/ as its reader would, and compares what they print with the page."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.ports import free_port

ROOT = Path(__file__).parents[1]
# An exit code is no figure: it must be the one on the page.
FIGURE = r"\b[0-9a-f]{12}\b|(?<!exit code )\d[\d.,]*"
# What a program of the page computes is the same everywhere.
NO_FIGURE = r"(?!)"
# What prints that a server is ready.
_END = "--- end of block ---"
SERVERS = {"edgeopt-agent run": "listens at", "uvicorn ": "Uvicorn running"}


def blocks_of(text):
    """Language and content of each block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def compare_lines(expected, printed, figures=FIGURE):
    """Lines of the page that were not printed in this order, and the block with the figures that were.

    Numbers and releases may differ, or what the pattern `figures` matches.
    """
    words, missing, renewed = " ".join(printed.split()), [], []
    for line in expected.splitlines():
        parts = re.split(figures, line)
        pattern = f"({figures})".join(re.escape(re.sub(r"\s+", " ", part)) for part in parts)
        found = re.search(pattern.removeprefix("\\ "), words)
        if line == "..." or found is None:
            renewed.append(line)
            missing += [line] if line != "..." else []
            continue
        words = words[found.end() :]
        renewed.append("".join(a + b for a, b in zip(parts, (*found.groups(), ""), strict=True)))
    return missing, "".join(f"{line}\n" for line in renewed)


def follow(page, reader, before=lambda _block: None):
    """Types every block of a page: the lines that were not printed, each with what was.

    With EDGEOPT_RENEW_PAGES, the page gets the figures of this run.
    """
    text, typed, printed, missing = page.read_text(), "", "", {}
    for language, block in blocks_of(text):
        if language == "text":
            lost, renewed = compare_lines(block, printed, FIGURE if typed == "" else NO_FIGURE)
            missing |= dict.fromkeys(lost, printed)
            text = text.replace(f"```text\n{block}```", f"```text\n{renewed}```")
        elif language in {"", "python"}:
            before(block)
            typed, printed = language, reader.type(language, block)
    if os.environ.get("EDGEOPT_RENEW_PAGES"):
        page.write_text(text)
    return missing


class Reader:
    """Types blocks in a folder beside a checkout; a server runs in a second terminal."""

    def __init__(self, folder, search_s=120, names=("edgeopt", "examples", "tests")):
        programs = folder / "programs"
        programs.mkdir()
        starts = {"edgeopt": "-m edgeopt", "edgeopt-agent": "-m edgeopt_agent.main", "uvicorn": "-m uvicorn"}
        for name, start in {**starts, "python": ""}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n')
            (programs / name).chmod(0o755)
        for name in names:
            (folder / name).symlink_to(ROOT / name)
        self.folder = folder
        self.search_s = search_s
        self.server = None
        self.port = free_port()
        path = os.pathsep.join(str(each) for each in (ROOT, ROOT / "agent"))
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": path,
            "COLUMNS": "250",
            "PYTHONUNBUFFERED": "1",
        }

    def type(self, language, block):
        """What the block printed."""
        if language == "python":
            return self._run(sys.executable, "-c", block)
        for command, ready in SERVERS.items():
            if block.startswith(command):
                self._start(f"{block.strip()} --port {self.port}", ready)
                return ""
        here = re.sub(
            r"^(edgeopt-agent|edgeopt fleet) (\w+)",
            rf"\1 \2 --url localhost:{self.port}",
            block,
            flags=re.MULTILINE,
        )
        # The winner must be proved, also where other tests keep the cores busy.
        search = r"^(edgeopt optimize \S+)(?!.* --device )"  # a plan measures nothing
        here = re.sub(search, rf"\1 --time-limit {self.search_s}", here, flags=re.MULTILINE)
        here = re.sub(r"localhost:(8080|8000)", f"localhost:{self.port}", here)
        printed = self._run("bash", "-e", "-c", here)
        if entered := re.search(r"^mkdir (\w+) && cd \1$", block, flags=re.MULTILINE):
            self.folder /= entered[1]
        return printed

    def _run(self, *command):
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}"
        return done.stdout

    def _start(self, command, ready):
        log = self.folder / "server.log"
        self.server = subprocess.Popen(
            ["bash", "-c", f"exec {command} > {log.name} 2>&1"], cwd=self.folder, env=self.environment
        )
        until = time.monotonic() + 120
        while ready not in (log.read_text() if log.exists() else ""):
            assert self.server.poll() is None, log.read_text()
            assert time.monotonic() < until, f"not ready after two minutes: {log.read_text()}"
            time.sleep(0.1)

    def stop_server(self):
        """As Ctrl-C does; what it ended with."""
        if self.server is None:
            return None
        self.server.send_signal(signal.SIGINT)
        return self.server.wait(60)


class Terminal(Reader):
    """Types every block into one shell, which keeps what it exported and started.

    `ports`: what takes the place of the ports of the page.
    """

    def __init__(self, folder, ports, more_path="", **more):
        super().__init__(folder, **more)
        self.environment["PATH"] += f"{os.pathsep}{more_path}"
        self.ports = ports
        self.shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def type(self, language, block):
        """What the block printed."""
        if language == "python":
            block = f"python - <<'END OF PROGRAM'\n{block}END OF PROGRAM\n"
        search = rf"\1 --time-limit {self.search_s}"
        here = re.sub(r"^(edgeopt optimize \S+)", search, block, flags=re.MULTILINE)
        for port, free in self.ports.items():
            here = here.replace(port, free)
        print(f"{here}\necho; echo {_END} $?", file=self.shell.stdin, flush=True)
        printed = ""
        for line in self.shell.stdout:
            if line.startswith(_END):
                assert line.split()[-1] == "0", f"{block}\n{printed}"
                return printed
            printed += line
        raise AssertionError(f"the shell ended: {block}\n{printed}")

    def close(self):
        """Ends the shell and all that it has started."""
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.communicate(timeout=60)
