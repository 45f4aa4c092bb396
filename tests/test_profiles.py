from pathlib import Path

import pytest

from edgeopt import profiles
from edgeopt.errors import ProfileError
from edgeopt.profiles import load_profile, profiles_folder, shipped_profiles

CHILD = 'name = "mine"\ntitle = "Mine"\nextends = "cpu-avx2"\n'


@pytest.fixture
def write(tmp_path):
    def make(text, name="mine"):
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        return path

    return make


def test_the_shipped_profiles():
    found = {profile.name: profile for profile in shipped_profiles()}
    assert list(found) == [
        "arm-dotprod",
        "cpu-avx2",
        "cpu-avx512",
        "cpu-avx512-vnni",
        "generic-cpu",
        "mobile-cpu",
    ]
    assert found["cpu-avx512-vnni"].quantization.reduce_range is False
    assert found["cpu-avx512"].quantization.reduce_range is True
    assert found["arm-dotprod"].quantization.activation_type == "int8"
    assert found["arm-dotprod"].quantization.per_channel is True
    for profile in found.values():
        assert profile.precision.ladder[0] == "source"
        assert set(profile.precision.ladder) == set(profiles.VARIANTS)


def test_names_are_files_and_ranks_leave_no_tie():
    for path in profiles_folder().glob("*.toml"):
        assert load_profile(path).name == path.stem
    ranks = [p.match.rank for p in shipped_profiles() if "x86_64" in p.match.architectures]
    assert len(set(ranks)) == len(ranks)


def test_every_value_of_a_shipped_profile_says_why():
    for path in profiles_folder().glob("*.toml"):
        for line in path.read_text().splitlines():
            key = line.partition("=")[0].strip()
            if "=" in line and key not in {"schema", "name", "title", "extends"} and not line.endswith("["):
                above = path.read_text().partition(line)[0].splitlines()[-1]
                assert "#" in line or above.startswith("#"), f"{path.name}: {line}"


def test_the_words_are_those_of_the_other_parts():
    from edgeopt.backends import BACKENDS
    from edgeopt.search.recipes import RECIPES

    assert set(profiles.BACKENDS) == {backend.name for backend in BACKENDS} - {"null"}
    assert set(profiles.VARIANTS) == {recipe.name for recipe in RECIPES}


def test_extending_replaces_values_and_keeps_the_rest(write):
    path = write(CHILD + "[match]\nrank = 99\n[runtime.openvino-cpu]\nthreads = [3]\n")
    mine, base = load_profile(path), load_profile(profiles_folder() / "cpu-avx2.toml")
    assert mine.match.rank == 99
    assert mine.match.simd == base.match.simd
    assert mine.runtime["openvino-cpu"] == {**base.runtime["openvino-cpu"], "threads": (3,)}
    assert mine.runtime["onnxruntime-cpu"] == base.runtime["onnxruntime-cpu"]


def test_a_neighbour_is_extended_before_a_shipped_one(write):
    write(
        CHILD.replace("mine", "cpu-avx2").replace('"cpu-avx2"\n', '"generic-cpu"\n') + "[match]\nrank = 7\n",
        "base",
    )
    path = write('name = "mine"\ntitle = "Mine"\nextends = "base"\n')
    assert load_profile(path).match.rank == 7


def test_a_profile_that_extends_itself(write):
    write('name = "b"\ntitle = "B"\nextends = "a"\n', "b")
    path = write('name = "a"\ntitle = "A"\nextends = "b"\n', "a")
    with pytest.raises(ProfileError, match="extends itself: a -> b -> a"):
        load_profile(path)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            CHILD + "[quantization]\nreduce_rang = true",
            "table [quantization] has no key 'reduce_rang'",
            "'reduce_range'",
        ),
        (CHILD + "[serch]\n", "the top level has no key 'serch'", "'search'"),
        (
            CHILD + '[quantization]\nreduce_range = "yes"',
            "reduce_range in [quantization] must be true or false, not text",
            "",
        ),
        (CHILD + "[search]\ntime_limit_s = -1", "time_limit_s in [search] must be a number > 0.0", ""),
        (
            CHILD + '[match]\nsimd = ["avx512_vnni"]',
            "simd in [match] does not know 'avx512_vnni'",
            "'avx512-vnni'",
        ),
        (
            CHILD + '[match]\narchitectures = ["x86"]',
            "architectures in [match] does not know 'x86'",
            "'x86_64'",
        ),
        (CHILD + '[precision]\nladder = ["nncf-int-8"]', "does not know 'nncf-int-8'", "'nncf-int8'"),
        (CHILD + '[quantization]\nweight_type = "int4"', "weight_type in [quantization]", "'int8'"),
        (
            CHILD + '[backends]\norder = ["openvino"]',
            "order in [backends] does not know 'openvino'",
            "'openvino-cpu'",
        ),
        (
            CHILD + "[runtime.openvino-cp]\nthreads = [1]",
            "[runtime] does not know 'openvino-cp'",
            "'openvino-cpu'",
        ),
        (
            CHILD + "[runtime.openvino-cpu]\nthreads = 4",
            "threads in [runtime.openvino-cpu] must be a list",
            "[4]",
        ),
        (
            CHILD + '[needs]\nbf16 = ["avx512bf16"]',
            "bf16 in [needs] does not know 'avx512bf16'",
            "'avx512-bf16'",
        ),
        (CHILD + '[graph]\npasses = "all"', "passes in [graph] must be \"default\" or a list, not 'all'", ""),
        (CHILD + "schema = 2", "schema 2 is not known", "written for"),
        (CHILD.replace('name = "mine"\n', ""), "the profile lacks the key 'name'", ""),
        ('name = "x"\ntitle = "X"', "the profile lacks the key", ""),
        (
            CHILD.replace("cpu-avx2", "cpu-avx3"),
            "the profile 'cpu-avx3' that it extends is not there",
            "'cpu-avx2'",
        ),
        ("name = ", "is not valid TOML", ""),
    ],
)
def test_a_mistake_is_one_sentence_with_the_place_and_what_is_right(write, text, message, hint):
    path = write(text)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert caught.value.message.startswith(f"{path}: ")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.hint


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profile(tmp_path / "missing.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match="not UTF-8"):
        load_profile(tmp_path / "binary.toml")


def test_an_installed_package_brings_its_own_folder(tmp_path, monkeypatch):
    package = tmp_path / "edgeopt"
    (package / "_profiles").mkdir(parents=True)
    monkeypatch.setattr(profiles, "__file__", str(package / "profiles.py"))
    with pytest.raises(ProfileError, match="are missing"):
        profiles_folder()
    (package / "_profiles" / "generic-cpu.toml").write_text("")
    assert profiles_folder() == package / "_profiles"
    checkout = tmp_path / "profiles"
    checkout.mkdir()
    (checkout / "generic-cpu.toml").write_text("")
    assert profiles_folder() == checkout


def test_this_is_a_checkout():
    assert profiles_folder() == Path(profiles.__file__).parents[1] / "profiles"
