"""Request bodies that cost a server much: what worst_bodies.py sends. Each is made when it is needed."""

import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

MIB = 1 << 20
SIZES = (1 << 10, 256 << 10, 16 * MIB - 4096, 64 * MIB - 4096)
"""In bytes: small ones, one just below the limit of JSON, and one just below that of a body."""
OTHER_INPUTS = ",".join(
    f'{{"name":"{name}","shape":[1],"datatype":"{datatype}","data":[{data}]}}'
    for name, datatype, data in (("i", "INT64", "1"), ("s", "BYTES", '"a"'))
)
BINARY = {"name": "e", "parameters": {"binary_data": True}}


@dataclass(frozen=True, slots=True)
class Sent:
    body: bytes
    header_length: int | None = None
    """Where the JSON ends, if binary data follows."""
    encoding: str = ""


@dataclass(frozen=True, slots=True)
class AttackBody:
    name: str
    protocol: str
    make: Callable[[int], Sent]
    """The body of about this size in bytes."""


def _text(data: str = "[1]", shape: str = "[1]", name: str = "x", datatype: str = "FP32", **more: str) -> bytes:
    """A request whose other inputs are in order, so that it may be run."""
    tensor = f'{{"name":"{name}","shape":{shape},"datatype":"{datatype}","data":{data}}}'
    others = more.get("others", f",{OTHER_INPUTS}" if name == "x" else "")
    after = more.get("after", ',"outputs":[{"name":"n"}]')
    return f'{{"inputs":[{tensor}{others}]{after}}}'.encode()


def _list(piece: str, size: int, begin: str = "[", end: str = "]") -> str:
    count = max(1, size // (len(piece) + 1))
    return begin + ",".join(repeat(piece, count)) + end


def _count(piece: str, size: int) -> int:
    return max(1, size // (len(piece) + 1))


def _values(piece: str, name: str = "x", datatype: str = "FP32") -> Callable[[int], Sent]:
    """As many of these values as the shape says."""
    return lambda size: Sent(_text(_list(piece, size), f"[{_count(piece, size)}]", name, datatype))


def _json(make: Callable[[int], bytes]) -> Callable[[int], Sent]:
    return lambda size: Sent(make(size))


def _nested(size: int) -> bytes:
    return _text("[" * (size // 2) + "]" * (size // 2))


def _mixed(size: int) -> bytes:
    return _text('["' + "a" * (size // 2) + '",' + _list("1", size // 2, begin=""), f"[{size // 4 + 1}]")


def _keys(size: int) -> bytes:
    keys = ",".join(f'"k{number}":0' for number in range(size // 12))
    return _text(after=f',"parameters":{{{keys}}}')


def _compressed(encoding: str, plain: Callable[[int], bytes], factor: int) -> Callable[[int], Sent]:
    """Made of a plain body that is this many times as large, up to a GiB."""

    def make(size: int) -> Sent:
        raw = plain(min(size * factor, 256 * MIB))
        packed = gzip.compress(raw, 1) if encoding == "gzip" else zlib.compress(raw, 1)
        return Sent(packed, None, encoding)

    return make


def _compressed_tensor(size: int) -> Sent:
    raw = _binary({}, 60 * MIB, outputs=[{"name": "n"}])
    assert raw.header_length is not None  # noqa: S101 - it was made with one
    return Sent(gzip.compress(raw.body, 9 if size < MIB else 1), raw.header_length, "gzip")


def _binary(sizes: dict[str, int], size: int, **more: object) -> Sent:
    """A tensor of bytes for `x`; `sizes` says what the header claims of it."""
    claimed = sizes.get("x", size)
    tensors: list[dict[str, object]] = [
        {"name": "x", "shape": [size // 4], "datatype": "FP32", "parameters": {"binary_data_size": claimed}},
        *json.loads(f"[{OTHER_INPUTS}]"),
    ]
    head = json.dumps({"inputs": tensors, **more}).encode()
    return Sent(head + bytes(size // 4 * 4), len(head))


def _strings(size: int, prefix: bytes, count: int | None = None) -> Sent:
    count = size // max(1, len(prefix)) if count is None else count
    data = prefix * (size // len(prefix))
    tensor = {"name": "s", "shape": [count], "datatype": "BYTES", "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [tensor]}).encode()
    return Sent(head + data, len(head))


def _many_inputs(size: int) -> Sent:
    tensor = '{"name":"x","shape":[0],"datatype":"FP32","parameters":{"binary_data_size":0}}'
    head = f'{{"inputs":{_list(tensor, size)}}}'.encode()
    return Sent(head, len(head))


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


_NAME = _field(1, b"worst")


def _tensor(name: bytes, datatype: bytes, count: int, contents: bytes = b"") -> bytes:
    shape = _field(3, _varint(count))
    return _field(5, _field(1, name) + _field(2, datatype) + shape + (_field(5, contents) if contents else b""))


_OTHERS = _tensor(b"i", b"INT64", 1, _field(3, b"\1")) + _tensor(b"s", b"BYTES", 1, _field(8, b"a"))


def _wire(make: Callable[[int], bytes]) -> Callable[[int], Sent]:
    return lambda size: Sent(_NAME + make(size))


def _int64(size: int) -> bytes:
    contents = _field(3, b"\1" * size)
    others = _tensor(b"x", b"FP32", 1, _field(6, bytes(4))) + _tensor(b"s", b"BYTES", 1, _field(8, b"a"))
    return _tensor(b"i", b"INT64", size, contents) + others


def _groups(size: int) -> bytes:
    return b"\x4b" * (size // 2) + b"\x4c" * (size // 2)


def _raw(size: int) -> bytes:
    heads = _tensor(b"x", b"FP32", size // 4) + _tensor(b"i", b"INT64", 1) + _tensor(b"s", b"BYTES", 1)
    return heads + _field(7, bytes(size // 4 * 4)) + _field(7, bytes(8)) + _field(7, b"\1\0\0\0a")


BODIES: Sequence[AttackBody] = (
    AttackBody("plain: a binary tensor", "http", lambda size: _binary({}, size, outputs=[{"name": "n"}])),
    AttackBody("plain: raw_input_contents", "grpc", _wire(_raw)),
    AttackBody("plain: answered with a binary tensor", "http", lambda s: _binary({}, s, outputs=[BINARY])),
    AttackBody("binary tensor, answered in JSON", "http", lambda size: _binary({}, size, outputs=[{"name": "e"}])),
    AttackBody("deep nesting", "http", _json(_nested)),
    AttackBody("deep nesting of objects", "http", _json(lambda size: b'{"a":' * (size // 5))),
    AttackBody("single digits", "http", _values("1")),
    AttackBody("rows of one digit", "http", _json(lambda s: _text(_list("[1]", s), f"[{_count('[1]', s)},1]"))),
    AttackBody("single digits for INT64", "http", _values("1", "i", "INT64")),
    AttackBody("numbers of 300 digits", "http", _values("9" * 300, "i", "INT64")),
    AttackBody("fractions of 300 digits", "http", _values("0." + "7" * 300)),
    AttackBody("fractions of 17 digits", "http", _values("0.12345678901234567")),
    AttackBody("one number of all digits", "http", _json(lambda size: _text("[" + "9" * size + "]"))),
    AttackBody("exponents", "http", _values("1e38")),
    AttackBody("exponents above the limit", "http", _values("1e999999999")),
    AttackBody("an exponent of all digits", "http", _json(lambda size: _text("[1e" + "9" * size + "]"))),
    AttackBody("denormal numbers", "http", _values("2.2250738585072011e-308")),
    AttackBody("NaN", "http", _values("NaN")),
    AttackBody("empty lists", "http", _values("[]")),
    AttackBody("empty objects", "http", _values("{}")),
    AttackBody("a long string beside numbers", "http", _json(_mixed)),
    AttackBody("one long string", "http", _json(lambda s: _text('["' + "a" * s + '"]', "[1]", "s", "BYTES"))),
    AttackBody(
        "one string of escapes", "http", _json(lambda s: _text(f'["{chr(92) * (s & ~1)}"]', "[1]", "s", "BYTES"))
    ),
    AttackBody(
        "surrogate escapes",
        "http",
        _json(lambda s: _text('["' + r"\ud800" * (s // 6) + '"]', "[1]", "s", "BYTES")),
    ),
    AttackBody("empty strings", "http", _values('""', "s", "BYTES")),
    AttackBody(
        "as many strings as are taken",
        "http",
        _json(lambda s: _text(_list('""', min(s, 196608)), f"[{min(s, 196608) // 3}]", "s", "BYTES")),
    ),
    AttackBody("strings of one escape", "http", _values(r'"\""', "s", "BYTES")),
    AttackBody("millions of keys", "http", _json(_keys)),
    AttackBody("duplicate keys", "http", _json(lambda s: _text(after="," + _list('"id":"a"', s, "", "")))),
    AttackBody(
        "duplicate inputs", "http", _json(lambda s: b"{" + _list('"inputs":[]', s, "", "").encode() + b"}")
    ),
    AttackBody("a shape of millions", "http", _json(lambda size: _text(shape=_list("1", size)))),
    AttackBody(
        "a shape whose product overflows",
        "http",
        _json(lambda s: _text(_list("1", s), "[" + "4294967296," * 31 + "4294967296]")),
    ),
    AttackBody("a shape of zeros", "http", _json(lambda s: _text(_list("[]", s), f"[{_count('[]', s)},0]"))),
    AttackBody("a wrong shape", "http", _json(lambda s: _text(_list("1", s), f"[{_count('1', s) + 1}]"))),
    AttackBody("a long name", "http", _json(lambda size: _text(name="x" * size))),
    AttackBody("whitespace", "http", _json(lambda size: _text("[" + " " * size + "1]"))),
    AttackBody(
        "BOM", "http", _json(lambda size: b"\xef\xbb\xbf" + _text(_list("1", size), f"[{_count('1', size)}]"))
    ),
    AttackBody("UTF-16", "http", _json(lambda size: _text(_list("1", size // 2)).decode().encode("utf-16"))),
    AttackBody("gzip bomb of zeros", "http", _compressed("gzip", bytes, 1000)),
    AttackBody(
        "gzip bomb of digits", "http", _compressed("gzip", lambda s: _values("1")(min(s, SIZES[2])).body, 1000)
    ),
    AttackBody("gzip bomb of a tensor", "http", _compressed_tensor),
    AttackBody("deflate bomb", "http", _compressed("deflate", lambda size: _text(_list("1", size)), 1000)),
    AttackBody("false binary_data_size", "http", lambda size: _binary({"x": 1 << 62}, size)),
    AttackBody("many binary inputs", "http", _many_inputs),
    AttackBody("BYTES of false lengths", "http", lambda size: _strings(size, b"\xff\xff\xff\x7f", 65536)),
    AttackBody("BYTES of empty strings", "http", lambda size: _strings(min(size, 262144), bytes(4))),
    AttackBody("BYTES not UTF-8", "http", lambda size: _strings(size, b"\1\0\0\0\xff")),
    AttackBody("many outputs", "http", _json(lambda s: _text(after=',"outputs":' + _list('{"name":"e"}', s)))),
    AttackBody(
        "many parameters",
        "http",
        _json(lambda s: _text(after=',"parameters":{' + _list('"a":{}', s, "", "") + "}")),
    ),
    AttackBody("gRPC: empty parameters", "grpc", _wire(lambda size: _field(4, b"") * (size // 2))),
    AttackBody(
        "gRPC: parameters of an input", "grpc", _wire(lambda size: _field(5, _field(4, b"") * (size // 2)))
    ),
    AttackBody("gRPC: empty inputs", "grpc", _wire(lambda size: _field(5, b"") * (size // 2))),
    AttackBody(
        "gRPC: a packed shape", "grpc", _wire(lambda size: _field(5, _field(1, b"x") + _field(3, b"\1" * size)))
    ),
    AttackBody(
        "gRPC: an unpacked shape", "grpc", _wire(lambda size: _field(5, _field(1, b"x") + b"\x18\1" * (size // 2)))
    ),
    AttackBody("gRPC: packed one-byte INT64", "grpc", _wire(_int64)),
    AttackBody(
        "gRPC: long varints",
        "grpc",
        _wire(lambda s: _tensor(b"i", b"INT64", s // 10, _field(3, (b"\xff" * 9 + b"\1") * (s // 10)))),
    ),
    AttackBody(
        "gRPC: varints of two lengths",
        "grpc",
        _wire(
            lambda s: _tensor(b"i", b"INT64", s // 11 * 2, _field(3, (b"\1" + b"\xff" * 9 + b"\1") * (s // 11)))
        ),
    ),
    AttackBody(
        "gRPC: unpacked INT64", "grpc", _wire(lambda s: _tensor(b"i", b"INT64", s // 2, b"\x18\1" * (s // 2)))
    ),
    AttackBody(
        "gRPC: pieces of contents",
        "grpc",
        _wire(lambda s: _field(5, _field(1, b"i") + _field(5, b"\x1a\1\1") * (s // 5))),
    ),
    AttackBody(
        "gRPC: empty strings", "grpc", _wire(lambda s: _tensor(b"s", b"BYTES", 65536, _field(8, b"") * (s // 2)))
    ),
    AttackBody(
        "gRPC: as many strings as are taken",
        "grpc",
        _wire(lambda s: _tensor(b"s", b"BYTES", min(s // 2, 65536), _field(8, b"") * min(s // 2, 65536))),
    ),
    AttackBody(
        "gRPC: one long string", "grpc", _wire(lambda s: _tensor(b"s", b"BYTES", 1, _field(8, b"\xff" * s)))
    ),
    AttackBody("gRPC: unknown fields", "grpc", _wire(lambda size: b"\x98\x06\1" * (size // 3))),
    AttackBody(
        "gRPC: unknown fields in an input", "grpc", _wire(lambda size: _field(5, b"\x98\x06\1" * (size // 3)))
    ),
    AttackBody("gRPC: nested groups", "grpc", _wire(_groups)),
    AttackBody("gRPC: millions of raw_input_contents", "grpc", _wire(lambda size: _field(7, b"") * (size // 2))),
    AttackBody("gRPC: a long name", "grpc", lambda size: Sent(_field(1, b"a" * size))),
)
