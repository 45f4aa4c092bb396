import json

import pytest

from edgeopt.bundle.sign import new_key
from edgeopt_agent.main import run


@pytest.fixture
def trust(capsys, tmp_path):
    def ask(*arguments):
        return run(["trust", *map(str, arguments), "--data-dir", str(tmp_path / "data")]), *capsys.readouterr()

    return ask


def test_the_round_of_a_key(trust, tmp_path):
    made = new_key(tmp_path / "key")
    code, out, _ = trust("list")
    assert (code, "No trusted keys" in out) == (0, True)
    code, out, _ = trust("add", tmp_path / "key.pub")
    assert code == 0
    assert made.key_id in out
    code, out, _ = trust("list", "--json")
    assert [key["id"] for key in json.loads(out)["data"]["keys"]] == [made.key_id]
    code, out, _ = trust("remove", made.key_id)
    assert (code, "No trusted keys" in out) == (0, True)


def test_what_cannot_be_done_is_a_sentence(trust, tmp_path):
    assert trust("add", tmp_path / "none")[0] == 3
    code, _, err = trust("remove", "1a2b")
    assert code == 3
    assert "No key '1a2b' is trusted" in err
