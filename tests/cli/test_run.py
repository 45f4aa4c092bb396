import numpy as np
import pytest

from edgeopt.backends import null
from edgeopt.cli import main


@pytest.fixture
def arguments(tmp_path, null_model):
    np.savez(tmp_path / "data.npz", x=np.arange(30, dtype=np.float32).reshape(10, 3))
    return ["run", *map(str, (null_model("m"), "--data", tmp_path / "data.npz", "-o", tmp_path / "out"))]


def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(arguments, tmp_path, monkeypatch, capsys):
    run = null.NullSession.run

    def interrupted(self, feeds):
        if feeds["x"][0, 0] == 18:
            raise KeyboardInterrupt
        return run(self, feeds)

    with monkeypatch.context() as patch:
        patch.setattr(null.NullSession, "run", interrupted)
        assert main.run(arguments) == 130
    assert "Cancelled; run the same command to continue with the missing samples." in capsys.readouterr().err
    assert main.run(arguments) == 0
    out = capsys.readouterr().out
    assert "Ran 4 samples and took 6 from the interrupted run" in out
    with np.load(tmp_path / "out" / "outputs.npz") as archive:
        assert archive["y"].shape == (10, 1, 2)


def test_a_batch_of_nothing_is_refused(arguments, capsys):
    assert main.run([*arguments, "--batch", "0"]) == 2
    assert "--batch must be at least 1, not 0" in capsys.readouterr().err
