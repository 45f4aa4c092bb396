"""A real agent to deploy to, for the dialog."""

import subprocess
import sys

import pytest
from PySide6.QtWidgets import QWidget

from edgeopt_gui.agents.deploy_dialog import DeployDialog


@pytest.fixture(scope="session")
def agent_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    command = ["run", "--data-dir", str(folder), "--port", "0", "--soak-seconds", "0", "--soak-requests", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgeopt_agent.main", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    line = process.stdout.readline()
    yield next(word for word in line.split() if word.startswith("http://")).rstrip(",.")
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def open_dialog(qtbot, context, monkeypatch, tmp_path):
    """Opens the dialog over a window of its own; the pairings are the test's own too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    parents = []

    def open_it(bundle, figures=(), url=""):
        parent = QWidget()
        qtbot.addWidget(parent)
        parents.append(parent)
        parent.show()
        dialog = DeployDialog(parent, context, bundle, figures, url)
        dialog.open()
        return dialog

    return open_it
