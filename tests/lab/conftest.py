import msgspec
import pytest

from edgeopt.hw.device import device_for_evidence
from tests.commands.report.evidence import outcome
from tests.conftest import this_device
from tests.lab.fake_lab import FakeLab


@pytest.fixture
def fake_lab(tmp_path, conv_bundle, monkeypatch):
    """Makes a lab of fake devices."""
    monkeypatch.setenv("FAKE_LAB", str(tmp_path))

    def make(devices=("east", "west"), models=("small", "large")):
        device = this_device()
        found = msgspec.structs.replace(outcome(), device=device_for_evidence(device))
        return FakeLab(tmp_path, conv_bundle, found, device, devices, dict.fromkeys(models, 0.1))

    return make
