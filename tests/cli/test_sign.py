import json
import shutil

import pytest

from edgeopt.bundle.sign import claimed_key, claimed_sequence


@pytest.fixture
def edgeopt(edgeopt_here):
    return edgeopt_here


def test_a_key_is_made_and_a_bundle_signed_and_verified(edgeopt, conv_bundle, tmp_path):
    bundle = shutil.copytree(conv_bundle, tmp_path / "conv.edgeopt")
    code, out, _ = edgeopt("verify", bundle)
    assert code == 0
    assert "Not signed. Nothing checks the manifest itself." in out
    code, out, err = edgeopt("sign", "--new-key", "key", "--json")
    assert (code, err) == (0, "")
    made = json.loads(out.splitlines()[-1])["data"]
    assert (tmp_path / "key.pub").exists()
    code, out, _ = edgeopt("sign", bundle, "--key", "key", "--sequence", "7")
    assert code == 0
    assert " ".join(out.split()) == f"{bundle} is signed by the key {made['key_id']}, sequence 7."
    assert claimed_sequence(bundle) == 7
    assert claimed_key(bundle) == made["key_id"]
    code, out, _ = edgeopt("verify", bundle)
    assert code == 0
    assert f"The signature names the key {made['key_id']}; it was not checked" in " ".join(out.split())
    code, out, _ = edgeopt("verify", bundle, "--trust", "key.pub")
    assert code == 0
    assert "which is trusted" in out
    code, out, _ = edgeopt("verify", bundle, "--trust", "key.pub", "--json")
    found = json.loads(out.splitlines()[-1])["data"]
    assert (found["signed_by"], found["trusted"]) == (made["key_id"], True)


def test_changed_manifest_is_found_without_the_key(edgeopt, conv_bundle, tmp_path):
    bundle = shutil.copytree(conv_bundle, tmp_path / "conv.edgeopt")
    edgeopt("sign", "--new-key", "key")
    assert edgeopt("sign", bundle, "--key", "key")[0] == 0
    with (bundle / "manifest.json").open("a") as file:
        file.write("\n")
    code, _, err = edgeopt("verify", bundle)
    assert code == 3
    assert "does not match its manifest" in " ".join(err.split())


def test_a_bundle_of_a_key_that_is_not_trusted_is_refused(edgeopt, conv_bundle, tmp_path):
    for name in ("mine", "theirs"):
        code, out, _ = edgeopt("sign", "--new-key", name)
        assert code == 0
        assert f"private: {name} " in out
    bundle = shutil.copytree(conv_bundle, tmp_path / "conv.edgeopt")
    code, _, err = edgeopt("verify", bundle, "--trust", "mine.pub")
    assert code == 3
    assert "is not signed" in err
    assert edgeopt("sign", bundle, "--key", "theirs")[0] == 0
    code, _, err = edgeopt("verify", bundle, "--trust", "mine.pub")
    assert code == 3
    assert "which is not trusted here" in err
    assert edgeopt("verify", bundle, "--trust", "mine.pub", "--trust", "theirs.pub")[0] == 0


def test_wrong_usage_is_said(edgeopt, conv_bundle):
    for arguments in ((), (conv_bundle,), ("--key", "k")):
        code, _, err = edgeopt("sign", *arguments)
        assert code == 2
        assert "needs a bundle and a key" in err
    code, _, err = edgeopt("sign", conv_bundle, "--new-key", "k")
    assert code == 2
    assert "only creates a key" in err
    assert edgeopt("sign", "--new-key", "k")[0] == 0
    code, _, err = edgeopt("sign", "--new-key", "k")
    assert code == 2
    assert "never replaced" in err
