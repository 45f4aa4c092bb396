import msgspec

from edgeopt.bundle.read import read_bundle
from edgeopt.cli.main import run
from edgeopt.commands.replay.profile_commands import difference


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
