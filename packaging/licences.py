"""Checks docs/licences.md against the metadata of what is installed: licences.py check | write.

The list has every package that edgeopt or one of its extras brings, with its SPDX expression.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from email.message import Message
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PAGE = Path(__file__).parents[1] / "docs" / "licences.md"

# Licences that a program under Apache-2.0 may use. PySide6 and zeroconf are under LGPL:
# libraries that users can replace. So is tqdm, which has files under MPL.
KNOWN = frozenset({
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "EPL-2.0", "GPL-2.0-only", "GPL-3.0-only",
    "ISC", "LGPL-2.1-or-later", "LGPL-3.0-only", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib",
})  # fmt: skip
# Only as one of several choices.
COPYLEFT = frozenset({"EPL-2.0", "GPL-2.0-only", "GPL-3.0-only"})

# What the texts beside these packages say where their metadata name no exact licence.
READ = {
    "aiomqtt": "BSD-3-Clause",
    "colorama": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "mpmath": "BSD-3-Clause",
    "partd": "BSD-3-Clause",
    "scipy": "BSD-3-Clause",
    "sympy": "BSD-3-Clause",
    "uvloop": "Apache-2.0 OR MIT",
    "zict": "BSD-3-Clause",
}
WORDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
}


def main(arguments: list[str]) -> int:
    """Says every problem and returns the exit code."""
    if arguments not in (["check"], ["write"]):
        sys.stderr.write("usage: licences.py check | write\n")
        return 2
    found = {name: licence(name, metadata.metadata(name)) for name in sorted(installed("edgeopt"))}
    text = PAGE.read_text(encoding="utf-8")
    if arguments == ["write"]:
        PAGE.write_text(with_rows(text, {**rows(text), **found}), encoding="utf-8")
    problems = list(differences(rows(PAGE.read_text(encoding="utf-8")), found))
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


def licence(name: str, about: "Message[str, str] | metadata.PackageMetadata") -> str:
    """The SPDX expression of a package; empty where its metadata have none."""
    if name in READ:
        return READ[name]
    values = [str(value) for key in ("License-Expression", "License") for value in about.get_all(key, [])]
    classifiers = [str(value) for value in about.get_all("Classifier", []) if str(value).startswith("License ::")]
    for value in values + (classifiers if len(classifiers) == 1 else []):
        expression = WORDS.get(value.strip(), value.strip())
        if _identifiers(expression) <= KNOWN:
            return expression
    return ""


def differences(listed: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    """What is wrong, as sentences. A package of the list that is not installed here cannot be compared."""
    for name, expression in found.items():
        if not expression:
            yield f"{name}: its metadata name no known licence. Read its text, then add it to READ or KNOWN."
        elif name not in listed:
            yield f"{name}: not in docs/licences.md. Run packaging/licences.py write."
        elif listed[name] != expression:
            yield f"{name}: {expression} is installed, docs/licences.md says {listed[name]}. Read the new text."
    for name, expression in listed.items():
        if not _identifiers(expression) <= KNOWN:
            yield f"{name}: docs/licences.md says {expression or 'nothing'}, which is no known licence."
        elif not any(_identifiers(choice) - COPYLEFT for choice in expression.split(" OR ")):
            yield f"{name}: {expression} does not go with Apache-2.0."


def installed(root: str) -> set[str]:
    """The packages that a package and all its extras bring, without itself, where they are installed."""
    seen: set[tuple[str, str]] = set()
    waiting = [(root, extra) for extra in ("", *(metadata.metadata(root).get_all("Provides-Extra") or ()))]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        try:
            requires = metadata.requires(name) or ()
        except metadata.PackageNotFoundError:
            continue
        seen.add((name, extra))
        for requirement in map(Requirement, requires):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(plain(requirement.name), more) for more in ("", *requirement.extras)]
    return {name for name, _ in seen} - {root}


def rows(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `([^`]+)` \| (.*?) \|$", text, flags=re.MULTILINE))


def with_rows(text: str, listed: Mapping[str, str]) -> str:
    """The page with these rows instead of its own."""
    head = text[: text.index("|---|---|\n") + len("|---|---|\n")]
    return head + "".join(f"| `{name}` | {listed[name]} |\n" for name in sorted(listed))


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _identifiers(expression: str) -> set[str]:
    return set(re.split(r"\s+(?:AND|OR)\s+|[()]", expression)) - {""} or {""}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
