"""Files of other frameworks in the place of an ONNX model: what they hold, and the command that helps."""

import collections
import io
import pickle
import re
import shlex
import sys
import types
import zipfile
from pathlib import Path

import pytest

from edgeopt.cli.main import run
from edgeopt.graph.files import sniff
from edgeopt.graph.files.checkpoints import checkpoint_error
from edgeopt.importing.sources import recognize, source_of
from tests.printed import refusal


class Tensor:
    """Pickled as a tensor of torch is."""

    def __reduce__(self):
        torch = sys.modules["torch"]
        return torch._utils._rebuild_tensor_v2, (
            torch.FloatStorage,
            0,
            (4,),
            (1,),
            False,
            collections.OrderedDict(),
        )


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Writes an archive as `torch.save` does, of an object whose classes are in these modules."""

    def save(name, made, protocol=2):
        for module, names in (
            ("torch", ["FloatStorage"]),
            ("torch._utils", ["_rebuild_tensor_v2"]),
            ("torch.nn.modules.container", ["Sequential"]),
            ("networks", ["Net"]),
        ):
            fake = types.ModuleType(module)
            for each in names:
                setattr(fake, each, type(each, (), {"__module__": module}))
            monkeypatch.setitem(sys.modules, module, fake)
        sys.modules["torch"]._utils = sys.modules["torch._utils"]
        buffer = io.BytesIO()
        pickle.Pickler(buffer, protocol).dump(made())
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("archive/data.pkl", buffer.getvalue())
            archive.writestr("archive/version", "3\n")
        return tmp_path / name

    return save


def of(module, name):
    return lambda: getattr(sys.modules[module], name)()  # noqa: PLW0108 - the module is made later


WEIGHTS = "it holds weights only, no model."
HELD = [
    (lambda: collections.OrderedDict(w=Tensor()), WEIGHTS),
    (lambda: {"model": {"w": Tensor()}, "epoch": 3}, WEIGHTS),
    (of("networks", "Net"), "a pickled object of the class 'networks.Net', which is code."),
    (of("torch.nn.modules.container", "Sequential"), "'torch.nn.modules.container.Sequential'"),
]


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(("made", "said"), HELD)
def test_checkpoint_is_told_by_what_it_holds(saved, made, said, protocol):
    assert said in checkpoint_error(saved("sd.pt", made, protocol)).message


COMMANDS = [
    "import sd.pt -o out.onnx", "optimize sd.pt -o out.edgeopt", "analyze sd.pt", "simplify sd.pt -o out.onnx",
    "bench sd.pt", "watch sd.pt", "compare sd.pt sd.pt", "quantize sd.pt -o out.onnx --method fp16",
    "run sd.pt --data data.npz -o out", "graph sd.pt -o out.html", "presets sd.pt",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_state_dict_is_told_as_one_by_every_command(saved, command, monkeypatch, tmp_path, capfd):
    saved("sd.pt", HELD[0][0])
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(command)) == 3
    said = capfd.readouterr().err
    assert WEIGHTS in said
    printed = re.search(r"import that: (edgeopt import file\.py:NAME -o model\.onnx)", " ".join(said.split()))
    assert refusal(printed[1]) == ""


def test_torchscript_and_damaged_archives_are_no_checkpoints(tmp_path):
    for name, entries in (("script.pt", ("data.pkl", "constants.pkl")), ("damaged.pt", ("data.pkl",))):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for entry in entries:
                archive.writestr(f"archive/{entry}", b"\xff")
        assert checkpoint_error(tmp_path / name) is None
    assert checkpoint_error(Path(__file__)) is None


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"")


FILES = {
    "script.pt": lambda path: zipped(path, "archive/data.pkl", "archive/constants.pkl"),
    "net model.pth": lambda path: zipped(path, "archive/data.pkl", "archive/constants.pkl"),
    "program.pt2": lambda path: zipped(path, "archive/archive_format"),
    "net.keras": lambda path: zipped(path, "model.weights.h5"),
    "net.h5": lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(40)),
    "net.tflite": lambda path: path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(40)),
    "script.bin": lambda path: zipped(path, "archive/data.pkl", "archive/constants.pkl"),
    "program.onnx": lambda path: zipped(path, "archive/archive_format"),
    "forest.pkl": lambda path: path.write_bytes(pickle.dumps({"trees": 1})),
}


@pytest.mark.parametrize("name", FILES)
def test_printed_import_takes_the_file(name, tmp_path, monkeypatch, capfd):
    FILES[name](tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert run(["analyze", name]) == 3
    said = capfd.readouterr().err
    renamed = re.search(r"Rename it to '([^']+)'\.", said)
    assert (renamed is not None) == (name in {"script.bin", "program.onnx"})
    if renamed:
        Path(name).rename(renamed[1])
    command = re.search(r"[Ii]mport it: (edgeopt .*)", said)[1]
    assert refusal(command) == ""
    assert recognize(shlex.split(command)[2], trust=True).source.child


def test_suffixes_that_are_named_are_those_of_importers():
    remedies = [each[-1] for each in (*sniff.MAGIC, *sniff.IN_ZIP)]
    suffixes = {suffix for each in (*remedies, sniff.PICKLES) if isinstance(each, tuple) for suffix in each}
    assert len(suffixes) > 8
    assert all(source_of(f"model{suffix}").child for suffix in suffixes)
