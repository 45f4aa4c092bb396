import os

import pytest

from edgeopt.bundle.sign import new_key
from edgeopt.errors import DiskFullError, InputError
from edgeopt_agent import trust, trusted_keys


@pytest.fixture
def public(tmp_path):
    made = new_key(tmp_path / "key")
    return tmp_path / "key.pub", made.key_id


def test_a_key_is_added_listed_and_removed(tmp_path, public):
    file, key_id = public
    home = tmp_path / "agent"
    assert trusted_keys.trusted(home).keys == ()
    assert not home.exists()
    for _ in range(2):
        assert [key.id for key in trusted_keys.add(home, file).keys] == [key_id]
    assert trust.trust_of(home / "trust") == "signed"
    assert home.stat().st_mode & 0o777 == (home / "trust").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (home / "trust").iterdir()] == [f"{key_id}.pub"]
    assert trusted_keys.remove(home, key_id).keys == ()
    assert trust.trust_of(home / "trust") == "unsigned"


def test_removing_what_is_not_trusted_names_what_is(tmp_path, public):
    file, key_id = public
    with pytest.raises(InputError, match="No key 'x'") as caught:
        trusted_keys.remove(tmp_path, "x")
    assert "no key" in caught.value.hint
    trusted_keys.add(tmp_path, file)
    with pytest.raises(InputError) as caught:
        trusted_keys.remove(tmp_path, "../../key")
    assert key_id in caught.value.hint


def test_what_is_no_public_key_is_not_trusted(tmp_path, public):
    with pytest.raises(InputError, match="private key"):
        trusted_keys.add(tmp_path / "agent", tmp_path / "key")
    assert trusted_keys.trusted(tmp_path / "agent").keys == ()


def test_half_a_key_is_never_left(tmp_path, public, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DiskFullError, match=r"no room for .*pub'"):
        trusted_keys.add(tmp_path / "agent", public[0])
    assert list((tmp_path / "agent/trust").iterdir()) == []
    assert trusted_keys.trusted(tmp_path / "agent").keys == ()
    monkeypatch.undo()
    assert len(trusted_keys.add(tmp_path / "agent", public[0]).keys) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_root_adds_belongs_to_the_service(tmp_path, public):
    home = tmp_path / "agent"
    home.mkdir()
    os.chown(home, 12345, 23456)
    trusted_keys.add(home, public[0])
    for path in (home / "trust", home / "trust" / f"{public[1]}.pub"):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)
