import json

import msgspec
import pytest

from edgeopt.bundle.deployment import LARGEST_BYTES
from edgeopt.bundle.read import read_bundle
from edgeopt.cli.main import run
from edgeopt.commands.profile import difference, export, preview_import
from edgeopt.errors import BundleError, UsageError


def test_the_file_is_small_and_readable(chain):
    text = chain.exported.read_text()
    assert len(text) < 10_000
    assert "# How the model was made from the source, in this order.\n[[steps]]" in text
    assert max(len(line) for line in text.splitlines()) < 120


def test_nothing_but_a_profile_is_replaced(chain, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text("[tool]\n")
    with pytest.raises(UsageError, match="not a deployment profile"):
        export(chain.bundle, mine)
    assert mine.read_text() == "[tool]\n"
    for place, says in (("mine.txt", "must end in"), ("nowhere/a.toml", "does not exist")):
        with pytest.raises(UsageError, match=says):
            export(chain.bundle, tmp_path / place)
    with pytest.raises(UsageError, match="is inside the bundle"):
        export(chain.bundle, chain.bundle / "deployment.toml")
    export(chain.bundle, tmp_path / "a.toml")
    export(chain.exported, tmp_path / "a.toml")
    assert (tmp_path / "a.toml").read_bytes() == chain.exported.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"mine.toml", "a.toml"}


def test_an_import_says_what_there_would_be(chain, text, tmp_path):
    found = preview_import(chain.exported, chain.model)
    assert found.source_checked
    assert not found.unavailable
    assert not found.changes
    assert found.steps[1] == "int8: 3 layers in int8"
    assert found.command.startswith(f"edgeopt replay {chain.exported} {chain.model} -o chain.edgeopt")

    elsewhere = preview_import(text('\n[device]\nhost = "', '\n[device]\nhost = "0'))
    assert [each.part for each in elsewhere.changes] == ["host"]
    assert not elsewhere.source_checked
    assert "abacus" in preview_import(text('backend = "onnxruntime-cpu"', 'backend = "abacus"')).unavailable
    with pytest.raises(BundleError, match="no pass 'dread-nodes'"):
        preview_import(text('"dead-nodes"', '"dread-nodes"'))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"schema = 7\ncolour = 1\n", "schema 7"),
        (b'name = "generic"\n', "missing required field"),
        (b"\xff", "not readable TOML"),
        (b"#" * (LARGEST_BYTES + 1), "too large"),
    ],
)
def test_an_import_of_what_is_no_profile(tmp_path, content, says):
    file = tmp_path / "p.toml"
    file.write_bytes(content)
    with pytest.raises(BundleError, match=says):
        preview_import(file)


def test_the_commands(chain, tmp_path, capsys):
    place = str(tmp_path / "p.toml")
    assert run(["profile", "export", str(chain.bundle), "-o", place]) == 0
    assert "1. cleaned: " in capsys.readouterr().out
    assert run(["profile", "import", place, str(chain.model), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["data"]["backend"]) == ("profile-import", "onnxruntime-cpu")
    assert run(["profile", "import", place]) == 0
    assert f"Make the bundle:\n  edgeopt replay {place} chain.onnx" in capsys.readouterr().out
    assert run(["profile", "diff", place, str(chain.bundle)]) == 0
    assert (
        "Both run the same files; their profiles differ only in the time of creation." in capsys.readouterr().out
    )
    assert run(["profile", "import", str(tmp_path / "none.toml")]) == 3


def rows_of(found, part):
    return [(row.what, row.first, row.second) for row in found.rows if row.part == part]


def test_every_part_that_differs_is_named(chain, copied, change_deployment, capsys):
    first = read_bundle(chain.bundle).deployment
    cleaning, forms = first.steps
    layers = forms.forms["int8"]
    change_deployment(
        copied,
        run=msgspec.structs.replace(first.run, backend="openvino-cpu", options={"threads": 2}),
        steps=[
            msgspec.structs.replace(cleaning, parameters={"passes": cleaning.parameters["passes"][1:]}),
            msgspec.structs.replace(forms, forms={"int8": layers[:1], "w8": layers[1:]}),
        ],
        evidence=msgspec.structs.replace(first.evidence, speedup=3.0),
        runtimes={**first.runtimes, "onnxruntime": "1.0"},
    )
    found = difference(chain.bundle, copied)
    assert rows_of(found, "run") == [("backend", "onnxruntime-cpu", "openvino-cpu"), ("threads", "1", "2")]
    assert rows_of(found, "layers") == [(", ".join(layers[1:]), "int8", "w8")]
    name = cleaning.parameters["passes"][0]
    assert rows_of(found, "steps") == [("cleaned: passes", f"only: {name}", "no more")]
    assert rows_of(found, "evidence") == [("speedup", "2.0", "3.0")]
    assert rows_of(found, "runtimes") == [("onnxruntime", first.runtimes["onnxruntime"], "1.0")]
    assert found.summary == "Both run the same files; they differ in: run, steps, layers, runtimes and evidence."
    assert run(["profile", "diff", str(chain.bundle), str(copied)]) == 0
    said = capsys.readouterr().out
    assert "openvino-cpu" in said
    assert said.rstrip().endswith("runtimes and evidence.")


def test_quite_another_deployment(chain, conv_bundle):
    found = difference(chain.exported, conv_bundle)
    assert found.same_files is False
    assert rows_of(found, "steps") == [("order", "cleaned > int8", "none")]
    assert rows_of(found, "quantization") == [("what calibration found", "its own", "none")]
    assert [what for what, *_ in rows_of(found, "source")] == ["model"]
