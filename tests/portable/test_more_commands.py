"""The other commands as on another system, each with those that it needs before it."""

import pytest

from tests.portable.systems import SYSTEMS, opened

LAB = """
[[device]]
name = "this"
[models.conv]
file = "my model.onnx"
data = "my data.npz"
[options]
time_limit_s = 3
"""
SEARCH = ("optimize", "MODEL", "-o", "m.edgeopt", "--data", "DATA", "--profile", "p.toml", "--time-limit", "3")
COMMANDS = {
    "targets": (("targets",), ("targets", "show", "generic-cpu")),
    "presets": (("presets",),),
    "backends": (("backends",), ("backends", "onnxruntime-cpu")),
    "plugins": (("plugins",),),
    "passes": (("passes",),),
    "graph": (("graph", "MODEL", "-o", "graph.html"),),
    "ops": (("ops", "MODEL"),),
    "compare-calibrations": (("compare-calibrations", "MODEL", "--data", "DATA"),),
    "lab": (("lab", "run", "lab.toml", "-o", "lab results"), ("lab", "show", "lab results")),
    "watch": (("watch", "MODEL", "--seconds", "1"),),
    "cost": (
        ("bench", "MODEL", "--against", "BUNDLE", "--data", "DATA", "--time-limit", "2", "--save", "b.json"),
        ("cost", "b.json", "--price-per-hour", "0.35", "--load", "100/s"),
    ),
    "export": tuple(
        ("export", "BUNDLE", "--to", to, "-o", f"as {to}") for to in ("onnx", "runner", "docker", "cpp")
    ),
    "sign": (
        ("sign", "--new-key", "my key"),
        ("sign", "BUNDLE", "--key", "my key"),
        ("verify", "BUNDLE", "--trust", "my key.pub"),
    ),
    "replay": (SEARCH, ("replay", "m.edgeopt", "MODEL", "-o", "r.edgeopt")),
    "profile": (("profile", "export", "BUNDLE", "-o", "profile.toml"),),
    "cache": (("cache", "list"), ("cache", "clear")),
    "schema": (("schema",), ("schema", "probe")),
    "demo": (("demo", "-o", "demo.edgeopt"),),
}


@pytest.fixture(scope="module")
def session(request, tmp_path_factory, conv_model, conv_data, conv_bundle):
    folder = tmp_path_factory.mktemp(request.param)
    with opened(request.param, folder, conv_model, conv_data, conv_bundle) as session:
        (session.folder / "lab.toml").write_text(LAB)
        yield session


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("session", SYSTEMS, indirect=True)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_works_where_posix_is_missing(session, name):
    for arguments in COMMANDS[name]:
        answer = session(*arguments)
        assert answer["code"] == 0, answer["printed"]
    assert session.ended_children()
