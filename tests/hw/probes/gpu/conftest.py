from pathlib import Path

import pytest

from edgeopt.hw.host import LocalHost, RecordedHost

FAKE = Path(__file__).parent / "fake"
DRIVER = "/proc/driver/nvidia"


class WithChild(RecordedHost):
    """A recorded machine on which calls in a child process are really made."""

    def call_in_child(self, library, function, timeout_s=30.0):
        return LocalHost().call_in_child(library, function, timeout_s)


def information(minor):
    return f"Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 130\nDevice Minor: \t {minor}\n"


@pytest.fixture
def driver_files():
    """What the driver writes for two GPUs."""
    return {
        f"{DRIVER}/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\n",
        f"{DRIVER}/gpus/0000:17:00.0/information": information(0),
        f"{DRIVER}/gpus/0000:ca:00.0/information": information(1),
        "/dev/nvidia0": "",
        "/dev/nvidia1": "",
        "/dev/nvidiactl": "",
    }


@pytest.fixture
def with_pynvml(machine, driver_files, monkeypatch):
    """Makes that machine with the stand-in for pynvml on the child's path, and something wrong with it."""

    def make(fault="", files=None, **tables):
        monkeypatch.setenv("FAKE_NVML", fault)
        monkeypatch.setenv("PYTHONPATH", str(FAKE))
        versions = {"nvidia-ml-py": "12.560.30", **tables.pop("versions", {})}
        calls = {"platform.python_version()": "3.12.8", **tables.pop("calls", {})}
        host = machine({**driver_files, **(files or {})}, versions=versions, calls=calls, **tables)
        return WithChild(host.root)

    return make
