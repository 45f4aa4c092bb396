"""docs/tutorial.md, as it stands: its commands, its programs, and what it says that they print."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def missing_lines(expected, printed):
    """Lines of the page that were not printed in this order; numbers and releases may differ."""
    words, missing = " ".join(printed.split()), []
    for line in expected.splitlines():
        parts = re.split(r"\b[0-9a-f]{12}\b|\d[\d.,]*", " ".join(line.split()))
        found = re.search(r"(?:[0-9a-f]{12}|\d[\d.,]*)".join(map(re.escape, parts)), words)
        if line == "...":
            continue
        if found is None:
            missing.append(line)
        else:
            words = words[found.end() :]
    return missing


@pytest.mark.parametrize(
    ("expected", "printed", "missing"),
    [
        ("3.03x faster\n", "x\n2.5x   faster, as proved", []),
        ("release 83f6819d03ab\n...\nend\n", "release 42eed870b764 and so on: end", []),
        ("first\nsecond\n", "second first", ["second"]),
        ("exit code 4\n", "slower", ["exit code 4"]),
    ],
)
def test_lines_of_the_page_are_found_in_what_was_printed(expected, printed, missing):
    assert missing_lines(expected, printed) == missing


def test_tutorial_has_six_chapters_with_commands():
    chapters = re.split(r"^## \d\. ", PAGE, flags=re.MULTILINE)[1:]
    assert len(chapters) == 6
    assert all("\n```\nedgeopt" in chapter or "\n```python\n" in chapter for chapter in chapters)


class Reader:
    """Types the blocks of the page in a folder beside a checkout, the agent's in a second terminal."""

    def __init__(self, folder, own_model):
        programs = folder / "programs"
        programs.mkdir()
        for name, module in (("edgeopt", "edgeopt"), ("edgeopt-agent", "edgeopt_agent.main"), ("python", "")):
            start = f'-m {module} "$@"' if module else '"$@"'
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {start}\n')
            (programs / name).chmod(0o755)
        (folder / "edgeopt").symlink_to(ROOT / "edgeopt")
        self.folder = folder
        self.own_model = own_model
        self.agent = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        path = os.pathsep.join(str(each) for each in (ROOT, ROOT / "agent"))
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": path,
            "COLUMNS": "250",
        }

    def type(self, language, block):
        """What the block printed."""
        if language == "python":
            return self._run(sys.executable, "-c", block)
        if block.startswith("edgeopt-agent run"):
            self._start_agent(f"{block.strip()} --port {self.port}")
            return ""
        here = re.sub(
            r"^(edgeopt-agent|edgeopt fleet) (\w+)",
            rf"\1 \2 --url localhost:{self.port}",
            block,
            flags=re.MULTILINE,
        )
        # The winner must be proved, also where other tests keep the cores busy. The reader's model needs no proof.
        limit_s = 120 if " model.onnx" in block else 20
        here = re.sub(r"^(edgeopt optimize .*)$", rf"\1 --time-limit {limit_s}", here, flags=re.MULTILINE)
        printed = self._run("bash", "-e", "-c", here.replace("localhost:8080", f"localhost:{self.port}"))
        if "mkdir tutorial" in block:
            self.folder /= "tutorial"
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

    def _start_agent(self, command):
        self.agent = subprocess.Popen(
            ["bash", "-c", f"exec {command} > agent.log 2>&1"], cwd=self.folder, env=self.environment
        )
        log = self.folder / "agent.log"
        while "listens at" not in (log.read_text() if log.exists() else ""):
            assert self.agent.poll() is None, log.read_text()
            time.sleep(0.1)

    def stop_agent(self):
        """As Ctrl-C does; what it ended with."""
        if self.agent is None:
            return None
        self.agent.send_signal(signal.SIGINT)
        return self.agent.wait(60)


@pytest.fixture
def reader(tmp_path, own_model):
    made = Reader(tmp_path, own_model)
    yield made
    made.stop_agent()


@pytest.fixture
def own_model(conv_model):
    """A model as the reader has one: a single input named `input`, for pictures."""
    model = onnx.load(conv_model)
    for node in model.graph.node:
        node.input[:] = ["input" if name == "x" else name for name in node.input]
    del model.graph.input[:]
    shape = ["batch", 3, 224, 224]
    model.graph.input.append(helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, shape))
    return model


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_every_block_runs_and_prints_what_the_page_says(reader):
    printed, missing = "", {}
    for language, block in BLOCKS:
        if language == "text":
            missing |= dict.fromkeys(missing_lines(block, printed), printed)
        else:
            if "net.onnx" in block:
                onnx.save(reader.own_model, reader.folder / "net.onnx")
            printed = reader.type(language, block)
    assert missing == {}
    assert reader.stop_agent() == 0
    assert ", 0 failed" in (reader.folder / "watch.log").read_text().splitlines()[-1]
    assert (reader.folder / "net.edgeopt" / "deployment.toml").is_file()
    assert np.load(reader.folder / "inputs.npz")["input"].shape == (32, 3, 224, 224)
    pages = ("graph.html", "report.html", "changes.html")
    assert [name for name in pages if "<html" not in (reader.folder / name).read_text()] == []
