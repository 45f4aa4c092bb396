"""The small models of these tests, each built once."""

import pytest

from tests.quant.small_models import odd_net, picture_net, token_net


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    return picture_net(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session")
def tokens(tmp_path_factory):
    return token_net(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="session")
def odd(tmp_path_factory):
    return odd_net(tmp_path_factory.mktemp("odd"))
