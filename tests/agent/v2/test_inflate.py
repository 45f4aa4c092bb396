import gzip
import resource
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.inflate import inflate


@given(st.binary(max_size=5000))
def test_what_was_compressed_comes_back(body):
    assert inflate(memoryview(gzip.compress(body, mtime=0)), "gzip", 5000) == body
    assert inflate(memoryview(zlib.compress(body)), "deflate", 5000) == body


def test_a_small_body_does_not_inflate_to_the_largest():
    bomb = memoryview(gzip.compress(bytes(16 << 20)))
    with pytest.raises(RequestError, match="allowed for its size") as caught:
        inflate(bomb, "gzip", 64 << 20)
    assert caught.value.status == 413
    body = memoryview(gzip.compress(bytes(1 << 20)))
    assert len(inflate(body, "gzip", 64 << 20)) == 1 << 20


def test_exactly_the_limit_is_allowed_and_one_byte_more_is_not():
    assert len(inflate(memoryview(gzip.compress(bytes(1000))), "gzip", 1000)) == 1000
    with pytest.raises(RequestError, match="more than the 1000 bytes") as caught:
        inflate(memoryview(gzip.compress(bytes(1001))), "gzip", 1000)
    assert caught.value.status == 413


def test_a_bomb_takes_no_more_memory_than_is_allowed():
    bomb = memoryview(gzip.compress(bytes(256 << 20), 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RequestError):
        inflate(bomb, "gzip", 1 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize(
    "body", [b"", b"plain", gzip.compress(b"a", mtime=0)[:-1], gzip.compress(b"a", mtime=0) + b"more"]
)
def test_what_is_not_one_whole_stream_is_refused(body):
    with pytest.raises(RequestError) as caught:
        inflate(memoryview(body), "gzip", 1000)
    assert caught.value.status == 400
