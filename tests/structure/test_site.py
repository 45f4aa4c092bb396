"""`make docs`: the site of docs/, built in a folder whose name has spaces."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
DOORS = ["Learn", "Recipes", "Reference", "Understand"]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def pages(entries):
    for entry in entries:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else pages(value)


def build(folder):
    """Runs `make docs` with the Python that runs this test."""
    for name in ("Makefile", "zensical.toml"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "docs", folder / "docs", dirs_exist_ok=True)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    command = ["make", "--no-print-directory", "--assume-old", ".venv/.dev", "docs"]
    environment = {
        **os.environ,
        "NO_COLOR": "1",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    return lambda: subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder with spaces")
    done = build(folder)()
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "site"


def test_site_has_four_doors_and_every_page():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert [next(iter(entry)) for entry in nav] == ["Home", *DOORS]
    listed = list(pages(nav))
    assert len(listed) == len(set(listed))
    assert set(listed) == set(PAGES)


def test_home_page_lists_every_page():
    text = (ROOT / "docs" / "index.md").read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == DOORS
    assert set(PAGES) - set(re.findall(r"\(([\w/-]+\.md)\)", text)) == {"index.md"}


def test_every_page_is_built_and_searchable(site):
    index = (site / "search.js").read_text()
    for page in PAGES:
        built = page.removesuffix(".md") + ".html"
        assert (site / built).is_file()
        assert built in index


def test_site_is_light_and_dark(site):
    home = (site / "index.html").read_text()
    assert re.findall(r'data-md-color-media="([^"]*)" data-md-color-scheme="?(\w+)', home) == [
        ("(prefers-color-scheme)", "default"),
        ("(prefers-color-scheme: light)", "default"),
        ("(prefers-color-scheme: dark)", "slate"),
    ]


def test_pages_load_nothing_from_the_network(site):
    loaded = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="?((?:https?:)?//[^" >]+)')
    found = {page.name: loaded.findall(page.read_text()) for page in site.rglob("*.html")}
    assert len(found) > 20
    assert {name: urls for name, urls in found.items() if urls} == {}


def test_broken_links_and_anchors_fail_the_build(tmp_path):
    make_docs = build(tmp_path)
    page = tmp_path / "docs" / "cost.md"
    page.write_text(
        f"{page.read_text()}\n[a](no-such-page.md) [b](bundles.md#no-such-heading) [c](#no-such-heading)\n"
    )
    done = make_docs()
    assert done.returncode != 0
    printed = done.stdout + done.stderr
    assert "3 issues found" in printed
    assert printed.count("cost.md:") == 3
