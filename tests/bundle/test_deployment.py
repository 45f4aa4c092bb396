import msgspec
import pytest

from edgeopt.bundle.deployment import FILE, Run, Step, machine_of, read_deployment, system_of, to_toml
from edgeopt.errors import BundleError
from edgeopt.hw.probe import probe


@pytest.fixture
def deployment(bundle):
    return read_deployment(bundle / FILE)


@pytest.fixture
def reread(tmp_path):
    """What a text says as a deployment."""

    def read(text):
        path = tmp_path / FILE
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_deployment(path)

    return read


@pytest.mark.parametrize(
    "changes",
    [
        {"name": 'quotes " and ünïcode \\ and\nlines'},
        {"evidence": None, "device": {}, "runtimes": {"onnxruntime": "1"}},
        {"run": Run("openvino-cpu", "m.xml", {"precision": "f32", "threads": 2, "shapes": {"x": [1, 3, 8, 8]}})},
        {"steps": [Step("cleaned"), Step("x", {"passes": ["a", "b"], "per_channel": True, "ratio": 0.5})]},
    ],
)
def test_what_is_written_is_read(deployment, reread, changes):
    deployment = msgspec.structs.replace(deployment, **changes)
    text = to_toml(deployment)
    assert text.startswith("# edgeopt deployment profile")
    assert reread(text) == deployment


@pytest.mark.parametrize(
    ("place", "where"),
    [("schema = 2", "colour"), ("[run]", "run"), ("[source]", "source"), ("[evidence]", "evidence")],
)
def test_an_unknown_key_is_named_with_its_place(deployment, reread, place, where):
    with pytest.raises(BundleError, match="colour") as raised:
        reread(to_toml(deployment).replace(place, f'{place}\ncolour = "red"', 1))
    assert where in raised.value.message
    assert FILE in raised.value.message


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('backend = "onnxruntime-cpu"', "", "backend"),
        ('backend = "onnxruntime-cpu"', "backend = 3", "backend"),
        ("schema = 2", "schema = 99", "schema 99"),
        ("schema = 2", 'schema = "one"', "schema"),
        ("[run]", "[run", "TOML"),
    ],
)
def test_what_is_wrong_is_named(deployment, reread, old, new, says):
    text = to_toml(deployment)
    assert old in text
    with pytest.raises(BundleError, match=says) as raised:
        reread(text.replace(old, new, 1))
    assert raised.value.hint


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"\0\0\0", b"{}"])
def test_what_is_no_deployment(reread, content):
    with pytest.raises(BundleError, match=FILE):
        reread(content)


def test_a_folder_in_its_place(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(BundleError, match="cannot be read"):
        read_deployment(tmp_path / FILE)


def test_a_missing_one(tmp_path):
    with pytest.raises(BundleError, match=f"has no {FILE}"):
        read_deployment(tmp_path / FILE)


@pytest.mark.parametrize(
    ("system", "board"),
    [
        (("Linux", "aarch64"), "Raspberry Pi 5 Model B Rev 1.0"),
        (("Linux", "x86_64"), "Board, Linux edition, Linux one"),
        (("Darwin", "arm64"), None),
    ],
)
def test_system_is_that_of_the_device(deployment, system, board):
    device = probe()
    host = msgspec.structs.replace(device.host, os=system[0], architecture=system[1], board=board)
    machine = machine_of(msgspec.structs.replace(device, host=host))
    assert system_of(msgspec.structs.replace(deployment, machine=machine)) == system
    assert system_of(msgspec.structs.replace(deployment, machine={})) is None
