import io
import os
import struct
import zipfile
from contextlib import suppress
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.bundle.archive import pack, unpack
from edgeopt.bundle.manifest import check_manifest
from edgeopt.errors import BundleError

MAX = 1 << 20


@pytest.fixture
def made(tmp_path):
    """Writes an archive of (name or ZipInfo, content) rows and returns its path."""

    def make(*rows, compression=ZIP_STORED):
        path = tmp_path / "made.zip"
        with ZipFile(path, "w", compression) as archive:
            for name, content in rows:
                archive.writestr(name, content)
        return path

    return make


def packed(folder):
    out = io.BytesIO()
    pack(folder, out)
    return out.getvalue()


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(path, tmp_path, says, max_bytes=MAX):
    out = tmp_path / "out"
    with pytest.raises(BundleError, match=says) as caught:
        unpack(path, out, max_bytes)
    assert caught.value.hint
    assert not out.exists() or not any(out.iterdir())


def test_a_bundle_comes_back_as_it_was(conv_bundle, tmp_path):
    file = tmp_path / "conv.zip"
    file.write_bytes(packed(conv_bundle))
    unpack(file, tmp_path / "out", MAX)
    assert tree(tmp_path / "out") == tree(conv_bundle)
    check_manifest(tmp_path / "out")


def test_packed_twice_it_is_the_same_bytes(bundle, conv_bundle):
    os.utime(bundle / "ledger.json", (1, 1e9))
    (bundle / "ledger.json").chmod(0o600)
    assert packed(bundle) == packed(conv_bundle)


def test_nothing_is_compressed_and_names_are_in_order(conv_bundle):
    with ZipFile(io.BytesIO(packed(conv_bundle))) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert {info.compress_type for info in archive.infolist()} == {ZIP_STORED}


@pytest.mark.parametrize("plant", [lambda p: p.symlink_to("ledger.json"), os.mkfifo], ids=["link", "pipe"])
def test_what_is_no_plain_file_is_not_packed(bundle, plant):
    plant(bundle / "odd")
    with pytest.raises(BundleError, match="'odd' in the bundle"):
        packed(bundle)


def test_folders_of_their_own_are_no_harm(made, tmp_path):
    unpack(made(("model/", ""), ("model/a", "1"), ("b", "2")), tmp_path / "out", MAX)
    assert tree(tmp_path / "out") == {"model/a": b"1", "b": b"2"}


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../../x",
        "..",
        ".",
        "/etc/x",
        "//x",
        "a//b",
        "a/./b",
        "a\\b",
        "..\\x",
        "C:\\x",
        "C:x",
        "\\\\s\\x",
        "a\0b",
    ],
)
def test_a_name_that_could_lead_elsewhere(made, tmp_path, name):
    info = ZipInfo("placeholder")
    info.filename = info.orig_filename = name
    refused(made(("fine", "1"), (info, "2")), tmp_path, "points outside")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["x" * 256, "/".join(["x"] * 600)])
def test_a_name_that_is_too_long(made, tmp_path, name):
    refused(made((name, "1")), tmp_path, "too long")


@pytest.mark.parametrize(
    "rows", [(("a", "1"), ("a/b", "2")), (("a/b", "1"), ("a", "2")), (("a", "1"), ("a/b/", ""))]
)
def test_a_file_inside_a_file(made, tmp_path, rows):
    refused(made(*rows), tmp_path, "inside what is a file")


def test_a_file_and_a_folder_of_one_name(made, tmp_path):
    refused(made(("a", "1"), ("a/", "")), tmp_path, "twice")


def test_more_than_is_taken(made, tmp_path):
    file = made(("a", "1" * 600), ("b", "1" * 600))
    refused(file, tmp_path, "the maximum is 1199", max_bytes=1199)
    unpack(file, tmp_path / "out", 1200)


def central(data, field, value, size=4):
    """The archive with one field of its first entry in the list of contents replaced."""
    start = data.index(b"PK\x01\x02") + field
    return data[:start] + value.to_bytes(size, "little") + data[start + size :]


def plant(tmp_path, data):
    file = tmp_path / "planted.zip"
    file.write_bytes(data)
    return file


def test_a_huge_claim_about_the_size(made, tmp_path):
    data = made(("a", "1")).read_bytes()
    both = central(central(data, 20, 1 << 31), 24, 1 << 31)
    refused(plant(tmp_path, both), tmp_path, "claims 2147483648 bytes", max_bytes=1 << 32)
    refused(
        plant(tmp_path, central(data, 24, 1 << 31)), tmp_path, "has a wrong size in its header", max_bytes=1 << 32
    )


def test_a_huge_claim_in_64_bits(made, tmp_path):
    info = ZipInfo("a")
    info.extra = struct.pack("<HHQQ", 1, 16, 1 << 62, 1 << 62)
    data = made((info, "1")).read_bytes()
    both = central(central(data, 20, 0xFFFFFFFF), 24, 0xFFFFFFFF)
    refused(plant(tmp_path, both), tmp_path, "the maximum|claims", max_bytes=1 << 40)


def test_an_honest_archive_with_64_bit_fields(tmp_path):
    file = tmp_path / "zip64.zip"
    with ZipFile(file, "w") as archive, archive.open("a", "w", force_zip64=True) as entry:
        entry.write(b"1")
    unpack(file, tmp_path / "out", MAX)
    assert tree(tmp_path / "out") == {"a": b"1"}


def test_entries_that_share_their_bytes_hold_no_more_than_the_archive(tmp_path):
    content = b"1" * 1000
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        archive.writestr("a", content)
        first = archive.filelist[0]
        for k in range(50):
            info = ZipInfo(f"b{k}")
            info.header_offset = first.header_offset
            info.CRC, info.file_size, info.compress_size = first.CRC, first.file_size, first.compress_size
            archive.filelist.append(info)
        archive._didModify = True
    refused(plant(tmp_path, out.getvalue()), tmp_path, "claims 51000 bytes")


def test_a_list_of_contents_that_would_fill_the_memory(made, tmp_path):
    data = made(("a", "1")).read_bytes()
    end = data.index(b"PK\x05\x06")
    file = plant(tmp_path, b"\0" * end)
    with file.open("r+b") as out:
        out.truncate(100 << 20)  # sparse: it takes no room
        out.seek(0, os.SEEK_END)
        out.write(data[end : end + 12] + (99 << 20).to_bytes(4, "little") + (0).to_bytes(4, "little") + b"\0\0")
    refused(file, tmp_path, "list of contents is too long", max_bytes=1 << 40)


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all", b"PK\x05\x06" + b"\0" * 18])
def test_what_is_no_archive_of_anything(tmp_path, content):
    file = plant(tmp_path, content)
    if zipfile.is_zipfile(file):
        unpack(file, tmp_path / "out", MAX)
        assert tree(tmp_path / "out") == {}
    else:
        refused(file, tmp_path, "not a valid zip")


def test_what_is_there_already_is_never_replaced(made, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("mine")
    with pytest.raises(FileExistsError):
        unpack(made(("a", "theirs")), tmp_path / "out", MAX)
    assert (tmp_path / "out" / "a").read_text() == "mine"


SMALL = io.BytesIO()
with ZipFile(SMALL, "w") as small:
    small.writestr("manifest.json", "{}")
    small.writestr("model/weights.bin", bytes(range(40)))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(SMALL.getvalue()) - 1), st.integers(0, 255)), min_size=1, max_size=6
    )
)
def test_any_damage_is_refused_or_stays_inside(tmp_path_factory, edits):
    data = bytearray(SMALL.getvalue())
    for place, value in edits:
        data[place] = value
    home = tmp_path_factory.mktemp("damage")
    file = plant(home, bytes(data))
    with suppress(BundleError):  # anything else that is raised is a fault
        unpack(file, home / "out", MAX)
    assert {path.name for path in home.iterdir()} <= {"planted.zip", "out"}
    assert not any(path.is_symlink() for path in home.rglob("*"))
    assert sum(len(content) for content in tree(home / "out").values()) <= MAX


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(NAMES | st.sampled_from(["..", "a/../..", "/x", "a/b", "\\", "a/"]), max_size=4, unique=True)
)
def test_any_name_is_refused_or_stays_inside(tmp_path_factory, names):
    home = tmp_path_factory.mktemp("names")
    file = home / "planted.zip"
    with ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "" if name.endswith("/") else "1")
    try:
        unpack(file, home / "out", MAX)
    except BundleError:
        pass
    else:
        assert set(tree(home / "out")) == {name for name in names if not name.endswith("/")}
    assert {path.name for path in home.iterdir()} <= {"planted.zip", "out"}


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [(-12, 7, "says that it holds 7 entries"), (-2, 9, "comment"), (None, 0, "comment")],
    ids=["count", "comment", "rest"],
)
def test_an_end_that_does_not_match_the_archive_is_refused(made, tmp_path, place, value, says):
    path = made(("a", b"1"), ("b", b"2"))
    content = bytearray(path.read_bytes())
    if place is None:
        content += b"more"
    else:
        struct.pack_into("<H", content, len(content) + place, value)
    path.write_bytes(content)
    refused(path, tmp_path, says)


def large_end(content, count, *, place=0, plain_count=0xFFFF):
    """The archive with the records of zip64 before its last one, which by default points to them."""
    end = bytearray(content[-22:])
    size, start = struct.unpack_from("<LL", end, 12)
    struct.pack_into("<HH", end, 8, plain_count, plain_count)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(content) - 22 + place, 1)
    return bytes(content[:-22]) + record + locator + bytes(end)


@pytest.mark.parametrize("plain_count", [0xFFFF, 2])
def test_an_honest_zip64_count_is_taken(made, tmp_path, plain_count):
    content = made(("a", "1"), ("b", "2")).read_bytes()
    unpack(plant(tmp_path, large_end(content, 2, plain_count=plain_count)), tmp_path / "out", MAX)
    assert tree(tmp_path / "out") == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("plain_count", [0xFFFF, 2])
def test_a_false_zip64_count_is_refused(made, tmp_path, plain_count):
    content = made(("a", "1"), ("b", "2")).read_bytes()
    planted = plant(tmp_path, large_end(content, 7, plain_count=plain_count))
    refused(planted, tmp_path, "says that it holds 7 entries")


def test_a_count_of_zip64_without_its_record_is_refused(made, tmp_path):
    content = bytearray(made(("a", "1"), ("b", "2")).read_bytes())
    struct.pack_into("<HH", content, len(content) - 14, 0xFFFF, 0xFFFF)
    refused(plant(tmp_path, bytes(content)), tmp_path, "says that it holds 65535 entries")


def test_a_zip64_record_in_another_place_is_refused(made, tmp_path):
    content = made(("a", "1")).read_bytes()
    refused(plant(tmp_path, large_end(content, 1, place=1)), tmp_path, "zip64 record is not where it says")
