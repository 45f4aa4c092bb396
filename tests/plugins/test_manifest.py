"""The state of each plug-in, told by its manifest: none of these imports its code."""

import json
import sys

import pytest

from edgeopt.cli.main import run
from edgeopt.plugins import installed_plugins, offered

BOOM = "raise RuntimeError('imported')"
PASS = ("pass", "one", ":ONE")


@pytest.fixture(autouse=True)
def nothing_is_imported(no_plugin_code):
    pass


def test_ready_plugin_lists_what_it_offers(plant):
    plant(
        "full", BOOM, PASS, ("backend", "two", ".deep:TWO", 'formats = [".xml"]'), needs=["numpy>=2.0", "msgspec"]
    )
    (plugin,) = installed_plugins()
    assert (plugin.state, plugin.problem) == ("ready", "")
    assert [(one.kind, one.name, one.title) for one in plugin.offers] == [
        ("pass", "full.one", "planted one"),
        ("backend", "full.two", "planted two"),
    ]
    assert offered("backend")[0].suffixes == (".xml",)
    assert offered("recipe") == ()


@pytest.mark.parametrize(
    ("settings", "state", "says", "does"),
    [
        ({"interface": 2}, "wrong version", "version 2 of the plug-in interface, and this edgeopt has", "Update"),
        ({"interface": 0}, "wrong version", "version 0 of the plug-in interface", "newer version of the plug-in"),
        ({"needs": ["no-such-package"]}, "missing requirement", "needs no-such-package, which", "pip install"),
        (
            {"needs": ["numpy>=99.1"]},
            "missing requirement",
            "needs numpy>=99.1, and ",
            "pip install 'numpy>=99.1'",
        ),
        ({"needs": ["numpy==1"]}, "broken manifest", "requirement 'numpy==1'", "Plug-ins"),
        ({"manifest": "interface ="}, "broken manifest", "cannot be read", "Plug-ins"),
        ({"manifest": "interface = 1"}, "broken manifest", "`name`", "Plug-ins"),
        ({"manifest": 'interface = "one"'}, "broken manifest", "Expected `int`", "Plug-ins"),
        (
            {"manifest": 'interface = 1\nname = "bad"\nversion = "1.0"\ncolour = "red"'},
            "broken manifest",
            "colour",
            "",
        ),
        (
            {"manifest": 'interface = 1\nname = "good"\nversion = "1.0"'},
            "broken manifest",
            "is of good 1.0",
            "same",
        ),
        ({"manifest": 'interface = 1\nname = "bad"\nversion = "2.0"'}, "broken manifest", "of bad 2.0", "same"),
        (
            {"manifest": 'interface = 1\nname = "bad"\nversion = "1.0"'},
            "broken manifest",
            "not list the pass 'one'",
            "",
        ),
    ],
)
def test_plugin_that_cannot_be_used_says_why(plant, settings, state, says, does):
    plant("bad", BOOM, PASS, **settings)
    (plugin,) = installed_plugins()
    assert plugin.state == state
    assert says in plugin.problem
    assert does in plugin.hint
    assert [(one.kind, one.name) for one in plugin.offers] == [("pass", "bad.one")]
    assert plugin.offers[0].problem == f"the plug-in bad cannot be used: {plugin.problem}"


def test_plugin_that_lacks_a_requirement_is_listed_with_its_titles(plant):
    plant("needy", BOOM, PASS, needs=["no-such-package"])
    assert [one.title for one in offered("pass")] == ["planted one"]


def test_manifest_that_offers_more_than_the_entry_points(plant):
    manifest = 'interface = 1\nname = "bad"\nversion = "1.0"\n'
    for kind, name in (("passes", "one"), ("recipes", "two")):
        manifest += f'[[{kind}]]\nname = "{name}"\ntitle = "x"\n'
    plant("bad", BOOM, PASS, manifest=manifest)
    assert installed_plugins()[0].problem == "its entry points do not list the recipe 'two'"


def test_two_offers_of_one_name(plant):
    plant("bad", BOOM, PASS, ("recipe", "one", ":TWO"))
    assert installed_plugins()[0].problem == "its edgeopt-plugin.toml offers two things of one name"


def test_package_without_a_manifest_or_without_its_folder(plant):
    (plant("bare", BOOM, PASS) / "edgeopt-plugin.toml").unlink()
    for file in (package := plant("gone", BOOM, PASS)).iterdir():
        file.unlink()
    package.rmdir()
    bare, gone = installed_plugins()
    assert bare.problem == "its package bare has no edgeopt-plugin.toml"
    assert gone.problem == "its package gone is not there"


def test_entry_points_in_two_packages(plant):
    package = plant("split", BOOM, PASS)
    entries = package.with_name("split-1.0.dist-info") / "entry_points.txt"
    entries.write_text(f"{entries.read_text()}two = other:TWO\n")
    assert installed_plugins()[0].problem == "its entry points are in several packages: other, split"


def test_command_lists_plugins_with_their_state(plant, capfd):
    plant("full", BOOM, PASS)
    plant("newer", BOOM, PASS, interface=2)
    assert run(["plugins"]) == 0
    said = capfd.readouterr().out
    assert "full 1.0" in said
    assert "pass: planted one" in said
    assert "newer: it is for version 2 of the plug-in interface" in " ".join(said.split())
    assert run(["plugins", "--json"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    plugins = lines[-1]["data"]["plugins"]
    assert [(each["name"], each["state"]) for each in plugins] == [("full", "ready"), ("newer", "wrong version")]
    assert plugins[0]["offers"] == [{"kind": "pass", "name": "full.one", "title": "planted one"}]


def test_command_without_plugins_names_the_template(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert run(["plugins"]) == 0
    assert "examples/plugin" in capfd.readouterr().out


def test_passes_and_backends_are_listed_with_those_of_edgeopt(plant, capfd):
    plant("full", BOOM, PASS, ("backend", "two", ":TWO"))
    plant("newer", BOOM, ("backend", "three", ":TWO"), interface=2)
    for command, key in (("passes", "passes"), ("backends", "backends")):
        assert run([command, "--json"]) == 0
        listed = json.loads(capfd.readouterr().out.splitlines()[-1])["data"][key]
        found = {each["name"]: each for each in listed if "." in each["name"]}
        assert set(found) == ({"full.one"} if key == "passes" else {"full.two", "newer.three"})
    assert (found["full.two"]["available"], found["full.two"]["version"]) == (True, "1.0")
    assert "interface" in found["newer.three"]["reason"]
    assert run(["passes", "full.one"]) == 0
    assert "plug-in full 1.0" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("entry_points.txt", "[edgeopt.passes]\none = not a place\n", "is 'not a place', which is not"),
        ("entry_points.txt", "[edgeopt.passes]\none = \n", "is '', which is not"),
        ("entry_points.txt", "[edgeopt.passes]\na line alone\n", "its entry_points.txt cannot be read"),
        ("entry_points.txt", b"[edgeopt.passes]\none = \xff\n", "its entry_points.txt cannot be read"),
        ("METADATA", "Metadata-Version: 2.1\n", "and the package is package without a name"),
        ("../broken/edgeopt-plugin.toml", f"a = {'[' * 5000}", "cannot be read"),
    ],
)
def test_broken_entry_point_costs_its_own_line_only(plant, capfd, file, content, says):
    plant("good", BOOM, PASS)
    package = plant("broken", BOOM, PASS)
    written = content if isinstance(content, bytes) else content.encode()
    (package.parent / "broken-1.0.dist-info" / file).write_bytes(written)
    assert run(["plugins", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)["data"]["plugins"]
    (good,) = [each for each in told if each["name"] == "good"]
    (broken,) = [each for each in told if each["name"] != "good"]
    assert (good["state"], broken["state"]) == ("ready", "broken manifest")
    assert says in broken["problem"]
    assert run(["plugins"]) == 0
    assert "broken manifest" in capfd.readouterr().out


def test_package_without_a_name_is_listed_beside_the_backport_of_importlib_metadata(plant, capfd):
    """Its finder, which answers once something has imported it, raises KeyError for a missing field."""
    pytest.importorskip("importlib_metadata")
    package = plant("broken", BOOM, PASS)
    folder = package.parent / "broken-1.0.dist-info"
    (folder / "METADATA").write_text("Metadata-Version: 2.1\n")
    (folder / "entry_points.txt").write_bytes(b"[edgeopt.passes]\n\xff")
    assert run(["plugins", "--json"]) == 0
    assert "package without a name" in capfd.readouterr().out
