import json

import pytest

from edgeopt.commands.export.export import FORMATS


@pytest.fixture
def edgeopt(edgeopt_here):
    return edgeopt_here


def test_the_formats_are_listed_a_line_each(edgeopt):
    code, out, _ = edgeopt("export", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [form.name for form in FORMATS]
    code, out, _ = edgeopt("export", "--help")
    assert code == 0
    assert all(form.name in out for form in FORMATS)


def test_an_export_says_where_it_is_how_good_and_how_to_use_it(edgeopt, conv_bundle, tmp_path):
    code, out, err = edgeopt("export", conv_bundle, "--to", "onnx", "-o", "model")
    assert code == 0, err
    assert "model: onnx, 3 files, " in out
    assert "Checked: equal to the source model on 3 golden samples (at least 30.0 dB is needed)." in out
    assert "  options.intra_op_num_threads = 1\n" in out
    assert "  session = onnxruntime.InferenceSession('conv.onnx', options, " in out
    code, out, _ = edgeopt("export", conv_bundle, "--to", "onnx", "-o", "model", "--json")
    result = json.loads(out.splitlines()[-1])
    assert result["kind"] == "export"
    assert result["data"]["samples"] == 3


def test_a_bundle_as_one_file_is_exported_too(edgeopt, conv_bundle, tmp_path):
    from edgeopt.bundle.archive import pack

    with (tmp_path / "one.edgeopt").open("wb") as file:
        pack(conv_bundle, file)
    code, out, err = edgeopt("export", "one.edgeopt", "--to", "triton", "-o", "repository")
    assert code == 0, err
    assert "Checked: " in out
    assert (tmp_path / "repository" / "conv" / "config.pbtxt").is_file()


def test_wrong_usage_is_said(edgeopt, conv_bundle, tmp_path):
    for arguments in ((), (conv_bundle,), (conv_bundle, "--to", "onnx"), ("--to", "onnx", "-o", "x")):
        code, _, err = edgeopt("export", *arguments)
        assert code == 2
        assert "needs a bundle, a format and a folder" in err
    code, _, err = edgeopt("export", conv_bundle, "--to", "onx", "-o", "x")
    assert code == 2
    assert "Did you mean 'onnx'?" in err
    code, _, err = edgeopt("export", tmp_path / "none", "--to", "onnx", "-o", "x")
    assert code == 3
    assert "There is no bundle" in err
