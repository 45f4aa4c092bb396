from edgeopt.backends.base import Available, installed
from edgeopt.hw.device import Unavailable


def test_an_installed_package_tells_its_version():
    import numpy as np

    assert installed("numpy", ("numpy",), "cpu") == Available(np.__version__)


def test_another_distribution_may_bring_the_module():
    assert installed("numpy", ("numpy-gpu", "numpy"), "cpu") == installed("numpy", ("numpy",), "cpu")


def test_a_module_of_no_known_distribution_is_still_there():
    assert installed("numpy", ("numpy-gpu",), "cpu") == Available("unknown")


def test_a_missing_package_names_the_extra():
    state = installed("no_such_runtime", ("no-such-runtime",), "cpu")
    assert isinstance(state, Unavailable)
    assert "no-such-runtime" in state.reason
    assert state.extra == "cpu"


def test_a_folder_of_that_name_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "no_such_runtime").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(installed("no_such_runtime", ("no-such-runtime",), "cpu"), Unavailable)
