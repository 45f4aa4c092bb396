import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.openvino.options import SharedOptions
from edgeopt.backends.options import BackendOption, described
from edgeopt.errors import UsageError
from edgeopt.hw.device import Unavailable


def test_every_backend_is_found_by_its_name():
    assert [backend_named(b.name) for b in BACKENDS] == list(BACKENDS)
    assert len({b.name for b in BACKENDS}) == len(BACKENDS)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UsageError, match="'onnxruntime'") as raised:
        backend_named("onnxruntime")
    assert "'onnxruntime-cpu'" in raised.value.hint


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(UsageError) as raised:
        backend_named("tensorflow-lite")
    assert "openvino-cpu" in raised.value.hint


def test_what_is_missing_says_why():
    missing = [b.available() for b in BACKENDS]
    assert [m for m in missing if isinstance(m, Unavailable) and len(m.reason.split()) < 3] == []


def test_asking_for_what_needs_no_device_imports_no_runtime():
    code = (
        "import sys; from edgeopt.backends import BACKENDS;"
        "[b.available() for b in BACKENDS if b.name in ('null', 'openvino-auto') or b.name.endswith('-cpu')];"
        "print([m for m in ('onnxruntime', 'openvino', 'onnx', 'onnx_ir') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_there_is_and_what_can_be_set_is_known_without_numpy():
    code = (
        "import sys; from edgeopt.backends import NAMES, lowering_names, option_kinds;"
        "assert option_kinds('openvino-gpu') and lowering_names('openvino-gpu');"
        "assert option_kinds('onnxruntime-qnn') and lowering_names('onnxruntime-qnn');"
        "from edgeopt.graph.passes import NAMES as passes;"
        "print(len(NAMES) > 10, len(passes) > 30, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "False"]


def test_openvino_converts_within_its_kernels_whoever_calls_it():
    assert {b.name for b in BACKENDS if b.converts_within} == {b.name for b in BACKENDS if "openvino" in b.name}


PAGE = Path(__file__).parents[2] / "docs" / "backends.md"
PROVIDERS = [b for b in BACKENDS if b.name.startswith("onnxruntime-") and b.options is not OrtOptions]
OPENVINO = [b for b in BACKENDS if b.name.startswith("openvino-")]


def said(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else "''"


def row(option: BackendOption) -> str:
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
