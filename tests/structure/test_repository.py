import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from edgeopt import profiles
from edgeopt.bundle import deployment
from edgeopt.cli.commands import COMMANDS
from tests.structure.imports import imports, modules

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "docs/architecture.md",
    "docs/profiles.md",
    "docs/bundles.md",
    "docs/device.md",
    "docs/agent.md",
    "docs/gui.md",
    "docs/ci.md",
)


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints():
    return (ROOT / "constraints.txt").read_text().splitlines()


def test_the_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


def test_constraints_hold_names_and_versions_and_nothing_else():
    assert constraints()
    assert [line for line in constraints() if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []


def test_each_name_is_constrained_once():
    names = [plain(line.partition("==")[0]) for line in constraints()]
    assert len(names) == len(set(names))


def test_everything_that_make_installs_is_constrained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(line for group in project["dependency-groups"].values() for line in group),
        *(line for extra in extras if extra not in {"cuda", "directml", "track", "all"} for line in extras[extra]),
    ]
    names = {plain(re.split(r"[><=;\[ ]", line)[0]) for line in wanted} - {"edgeopt"}
    assert names - {plain(line.partition("==")[0]) for line in constraints()} == set()


# The name by which a dependency is imported, where that is another one.
MODULES = {
    "grpcio": "grpc",
    "mlflow-skinny": "mlflow",
    "nvidia-ml-py": "pynvml",
    "onnxruntime-directml": "onnxruntime",
    "onnxruntime-gpu": "onnxruntime",
    "paho-mqtt": "paho",
    "pillow": "PIL",
    "protobuf": "google",
    "pyside6-essentials": "PySide6",
}
# The probes import it by `host.call`; uvicorn takes the others by itself where they are installed.
WITHOUT_IMPORT = {"py-cpuinfo", "httptools", "uvloop"}


def test_every_dependency_is_imported_somewhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    wanted = {plain(re.split(r"[><=;\[ ]", line)[0]) for line in lines} - {"edgeopt"} - WITHOUT_IMPORT
    imported = {
        item.name.partition(".")[0] for name, path in modules() for item in imports(name, path.read_text())
    }
    assert {name for name in wanted if MODULES.get(name, name.replace("-", "_")) not in imported} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_in_documents_lead_to_files(document):
    path = ROOT / document
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_readme_lists_every_command():
    text = (ROOT / "README.md").read_text()
    assert [command for command in COMMANDS if f"| `edgeopt {command}` |" not in text] == []


def test_every_benchmark_is_described():
    text = (ROOT / "benchmarks" / "README.md").read_text()
    scripts = [path.name for path in (ROOT / "benchmarks").glob("*.py")]
    assert [name for name in scripts if f"`{name}`" not in text] == []


def test_the_profiles_page_lists_every_profile():
    text = (ROOT / "docs" / "profiles.md").read_text()
    names = [path.stem for path in (ROOT / "profiles").glob("*.toml")]
    assert names
    assert [name for name in names if f"| `{name}` |" not in text] == []


@pytest.mark.parametrize(
    ("page", "structs"),
    [
        ("docs/bundles.md", (deployment.Deployment, deployment.SourceModel, deployment.Run, deployment.Evidence)),
        (
            "docs/profiles.md",
            (profiles.TargetProfile, profiles.Match, profiles.Quantization, profiles.Search),
        ),
    ],
)
def test_the_page_of_a_file_format_names_every_key(page, structs):
    text = (ROOT / page).read_text()
    names = [name for struct in structs for name in struct.__struct_fields__]
    assert [name for name in names if not re.search(rf"[`\[.]{name}[`\].]", text)] == []


@pytest.mark.parametrize("path", ["Makefile", ".ci/run", "packaging/make-venv.sh", "packaging/system-packages.sh"])
def test_set_up_names_no_host(path):
    """Where packages come from is the user's own setting, not this project's."""
    text = (ROOT / path).read_text()
    assert "://" not in text
    assert "index-url" not in text


def make(folder, *arguments, path=None):
    env = {**os.environ, "PATH": path or os.environ["PATH"]}
    command = [shutil.which("make"), "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=env)


@pytest.fixture
def checkout(tmp_path):
    """What make needs to begin, in a folder whose name has spaces."""
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "packaging", folder / "packaging")
    return folder


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_make
def test_make_alone_explains_its_targets(checkout):
    done = make(checkout)
    assert done.returncode == 0
    for target in (
        "demo",
        "test",
        "test-fast",
        "test-timing",
        "test-slow",
        "test-all",
        "check",
        "docs",
        "gui",
        "man",
        "deb",
        "sbom",
        "clean",
    ):
        assert f"make {target} " in done.stdout


@needs_make
def test_make_without_python_says_what_to_install(checkout, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "env"):
        (tools / tool).symlink_to(shutil.which(tool))
    done = make(checkout, "test", path=str(tools))
    assert done.returncode != 0
    assert "edgeopt needs Python 3.11 or later" in done.stderr
    assert not (checkout / ".venv").exists()


@needs_make
def test_make_passes_over_a_python_that_is_too_old(checkout, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "dirname", "env"):
        (tools / tool).symlink_to(shutil.which(tool))
    (tools / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tools / "python3").chmod(0o755)
    assert "edgeopt needs Python 3.11 or later" in make(checkout, "demo", path=str(tools)).stderr


PARTS = ("not slow and not timing", "timing", "slow and not timing")


@needs_make
@pytest.mark.parametrize("failing", [(), *((part,) for part in PARTS), PARTS])
def test_make_test_all_runs_every_part_also_after_a_failure(checkout, failing):
    (checkout / ".venv/bin").mkdir(parents=True)
    cases = " ".join(f'*"-m {part} "*) exit 3;;' for part in failing) or "none) ;;"
    program = f'#!/bin/sh\necho "$@" >> runs\ncase "$* " in {cases} esac\n'
    (checkout / ".venv/bin/python").write_text(program)
    (checkout / ".venv/bin/python").chmod(0o755)
    for stamp in (".made", ".demo", ".gui", ".dev"):
        (checkout / ".venv" / stamp).touch()
    (checkout / "tests").mkdir()
    (checkout / "tests/test_times.py").write_text("@pytest.mark.timing\n")
    (checkout / "tests/test_search.py").write_text("@pytest.mark.slow\n")
    done = make(checkout, "test-all")
    assert done.returncode == (2 if failing else 0)  # what make itself says of any failure
    runs = (checkout / "runs").read_text().splitlines()
    assert [part for run, part in zip(runs, PARTS, strict=True) if f"-m {part} " in f"{run} "] == [*PARTS]
    assert [run.rpartition(" ")[2] for run in runs[1:]] == ["tests/test_times.py", "tests/test_search.py"]


@needs_make
def test_make_clean_removes_what_make_made_and_nothing_else(checkout):
    for name in (".venv", ".cache", ".mypy_cache", "dist", "edgeopt/__pycache__"):
        (checkout / name).mkdir(parents=True)
    (checkout / "edgeopt" / "kept.py").touch()
    assert make(checkout, "clean").returncode == 0
    left = {str(path.relative_to(checkout)) for path in checkout.rglob("*")}
    left -= {name for name in left if name.startswith("packaging/")}
    assert left == {
        "Makefile",
        "constraints.txt",
        "pyproject.toml",
        "packaging",
        "edgeopt",
        "edgeopt/kept.py",
    }


def test_links_between_documents_lead_somewhere():
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    broken = []
    pages.append(ROOT / "examples" / "README.md")
    for page in (*pages, *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            name, _, anchor = target.partition("#")
            if "://" in target:
                continue
            other = page if not name else (page.parent / name).resolve()
            if not other.exists() or (anchor and anchor not in anchors(other)):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
