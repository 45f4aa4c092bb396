"""Finds stilted wording in documents, help, messages, screens, docstrings and comments.

python packaging/words.py              lists every match; exit code 1 if there is one
python packaging/words.py docs/ops.md  the same for these files
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/**/*.md"),
    *("benchmarks/README.md", "examples/README.md"),
)
SOURCES = ("edgeopt", "agent", "gui", "benchmarks", "packaging", "examples")

# Each with the plain wording.
PATTERNS = (
    (r"\bof which\b", "a relative clause with `that`, or a second sentence"),
    (r"\bwhoever\b", "name the reader or the program"),
    (r"\bas good as\b", "almost, nearly, within N %"),
    (r"\bso (many|much|long|often)\b(?! (as|that))", "the number, N, or how many"),
    (r"\bhas (it|them|none|no such \w+) not\b|\bhas them not\b", "does not have"),
    (r"\bhears?\b", "applies, uses"),
    (r"\bheld against\b", "compared with"),
    (r"\bhand(s|ed|ing)? out\b", "deliver, write, return"),
    (r"\bknows? no\b", "does not know, has no"),
    (r"\bstands? (in|beside|at|there|on)\b", "is in"),
    (r"\bof a sort\b", "name the kind"),
    (r"\bfrom the begin\b", "from the start"),
    (r"\banew\b", "again"),
    (r"\bas ever\b", "as usual"),
    (r"\b(is|are|be) to be (least|most)\b", "is minimized, maximized"),
    (r"\bis hoped\b|\bhopes? of\b|\bmost is hoped\b", "the best expected"),
    (r"\bin turns\b", "interleaved, alternately"),
    (r"\ball the same\b", "anyway"),
    (r"\bput to the (same )?proof\b", "tested, proved"),
    (r"\b(it|that|this) is (told|said)\b|\b(is|are) told\b", "is reported, is shown"),
    (r"\bleaves with\b", "exits with code N"),
    (r"(?<=[.:;] )Else\b|^\s*Else,", "Otherwise"),
    (r"(?<=[.:] )Of (all|what|the|these|those|several|a|each)\b[^.;:]*?,", "subject first"),
    (r"\bwhat (is|was|are) \w+ (is|was|are)\b", "name the thing"),
    (r"\bwho (takes?|took) part\b|\btakes? part\b", "is a candidate, is included"),
    (r"(?<!there )\b(is|are) no \w+(?= (of|that|at)\b)", "is not a"),
    (r"\breckons?\b", "calculate, assume"),
    (r"\bof (its|their|his) own accord\b", "automatically"),
    (r"\bthe (like|likes) of\b", "such as"),
    (r"\bin place of\b", "instead of"),
    (r"\bwhere there is none\b", "if there is none: if X is missing"),
)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a document; the strings and comments of a module."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(content.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def files(given: list[str]) -> list[Path]:
    if given:
        return [Path(each) for each in given]
    documents = [path for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))]
    modules = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    return documents + [path for path in modules if path != Path(__file__)]


def main() -> int:
    found = 0
    compiled = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in PATTERNS]
    for path in files(sys.argv[1:]):
        for number, text in texts(path):
            for pattern, better in compiled:
                for match in pattern.finditer(text):
                    found += 1
                    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                    print(f"{where}:{number}: '{match[0].strip()}': {better}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
