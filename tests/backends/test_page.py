"""docs/backends.md says the same as the code: every backend, every option."""

from pathlib import Path

import pytest

from edgeopt.backends import BACKENDS
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.openvino.options import SharedOptions
from edgeopt.backends.options import Option, described

PAGE = Path(__file__).parents[2] / "docs" / "backends.md"
PROVIDERS = [b for b in BACKENDS if b.name.startswith("onnxruntime-") and b.options is not OrtOptions]
OPENVINO = [b for b in BACKENDS if b.name.startswith("openvino-")]


def said(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else "''"


def row(option: Option) -> str:
    values = ", ".join(map(said, option.choices)) or option.kind
    default = "" if option.default is None else f"`{said(option.default)}`"
    search = ", ".join(map(said, option.search))
    what = option.description.replace("|", "\\|")
    return f"| `{option.name}` | {values} | {default} | {what} | {search} |"


def table(options) -> str:
    head = "| option | values | default | meaning | searched values |\n|---|---|---|---|---|\n"
    return head + "\n".join(row(option) for option in options) + "\n"


def own(backend, common=OrtOptions):
    """What a provider takes besides the options that all share, or in another way."""
    shared = {option.name: option for option in described(common)}
    return [option for option in described(backend.options) if shared.get(option.name) != option]


def test_every_backend_has_its_line():
    text = PAGE.read_text()
    assert [b.name for b in BACKENDS if b.package and f"| `{b.name}` |" not in text] == []


def test_the_options_that_all_providers_share():
    assert table(described(OrtOptions)) in PAGE.read_text()


@pytest.mark.parametrize("backend", PROVIDERS, ids=lambda b: b.name)
def test_the_options_of_each_provider(backend):
    assert table(own(backend)) in PAGE.read_text()


def test_the_options_that_all_openvino_devices_share():
    assert table(described(SharedOptions)) in PAGE.read_text()


@pytest.mark.parametrize("backend", OPENVINO, ids=lambda b: b.name)
def test_the_options_of_each_openvino_device(backend):
    assert table(own(backend, SharedOptions)) in PAGE.read_text()
