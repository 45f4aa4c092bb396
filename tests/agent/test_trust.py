import shutil

import pytest

from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.errors import BundleError, UsageError
from edgeopt_agent import tokens
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.trust import TrustWatch, check_host, check_signature


@pytest.fixture
def trusted(tmp_path):
    """A folder with one trusted key, and the private key that belongs to it."""
    folder = tmp_path / "trust"
    folder.mkdir()
    new_key(tmp_path / "key")
    shutil.copyfile(tmp_path / "key.pub", folder / "one.pub")
    return folder, tmp_path / "key"


def test_without_a_key_any_bundle_will_do(bundle, tmp_path):
    assert check_signature(bundle, tmp_path) == ""


def test_with_a_key_only_what_it_signed(bundle, trusted):
    folder, key = trusted
    with pytest.raises(BundleError, match="not signed"):
        check_signature(bundle, folder)
    sign_bundle(bundle, key)
    assert check_signature(bundle, folder)
    (bundle / "manifest.json").write_bytes((bundle / "manifest.json").read_bytes() + b" ")
    with pytest.raises(BundleError):
        check_signature(bundle, folder)


def test_another_key_is_not_trusted(bundle, trusted, tmp_path):
    new_key(tmp_path / "other")
    sign_bundle(bundle, tmp_path / "other")
    with pytest.raises(BundleError):
        check_signature(bundle, trusted[0])


def test_what_answers_say_follows_the_folder(trusted, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    watch = TrustWatch(empty)
    assert watch() == "unsigned"
    shutil.copyfile(trusted[0] / "one.pub", empty / "one.pub")
    assert watch() == "signed"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.3.4.5"])
def test_this_device_may_always_ask(host, tmp_path):
    check_host(host, DataDir(tmp_path))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "device.example"])  # noqa: S104 - refused here
def test_others_only_with_a_token_and_a_trusted_key(host, tmp_path, trusted):
    with pytest.raises(UsageError, match="has no access token yet, so") as refused:
        check_host(host, DataDir(tmp_path))
    assert f"token add NAME --role deploy --data-dir {tmp_path}" in refused.value.hint
    assert "trust add" not in refused.value.hint
    tokens.add(tmp_path, "laptop", "view")
    check_host(host, DataDir(tmp_path))
    shutil.rmtree(trusted[0])
    with pytest.raises(UsageError, match="The agent trusts no key yet, so") as refused:
        check_host(host, DataDir(tmp_path))
    assert "trust add" in refused.value.hint
    with pytest.raises(UsageError, match="has no access token yet and trusts no key yet"):
        check_host(host, DataDir(tmp_path / "none"))


def test_a_folder_that_is_gone_keeps_no_answer_back(trusted):
    watch = TrustWatch(trusted[0])
    assert watch() == "signed"
    shutil.rmtree(trusted[0])
    assert watch() == "signed"


def test_keys_that_cannot_be_seen_are_not_no_keys(bundle, tmp_path):
    (tmp_path / "trust").write_text("in its place")
    with pytest.raises(OSError, match="trust"):
        check_signature(bundle, tmp_path / "trust")
