import tomllib

from hypothesis import given
from hypothesis import strategies as st

from edgeopt.bundle.toml import to_commented_toml

# TOML has whole numbers of 64 bits, and text without lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
values = st.one_of(
    texts,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(texts, max_size=30),
    st.lists(st.integers(0, 9), max_size=60),
)
tables = st.recursive(
    st.dictionaries(texts, values, max_size=4),
    lambda inner: st.dictionaries(
        texts, st.one_of(values, inner, st.lists(inner, min_size=1, max_size=3)), max_size=3
    ),
    max_leaves=6,
)


@given(tables)
def test_what_is_written_is_read(table):
    assert tomllib.loads(to_commented_toml(table, "head\n\nlines", {})) == table


def test_it_reads_well():
    text = to_commented_toml(
        {
            "schema": 2,
            "run": {"backend": "b", "options": {"threads": 2}},
            "steps": [{"recipe": "a"}, {"recipe": "b", "forms": {"int8": ["x"] * 40}}],
            "digest": "f" * 300,
        },
        "What it is.",
        {"run": "What runs.", "steps": "In this order.", "run.options": "Of the runtime."},
    )
    assert text.startswith("# What it is.\n\nschema = 2\n")
    assert "\n# What runs.\n[run]\nbackend = " in text
    assert "\n# Of the runtime.\n[run.options]\nthreads = 2\n" in text
    assert text.count("# In this order.") == 1
    assert text.count("[[steps]]") == 2
    assert max(map(len, text.splitlines())) <= 101
    assert len(text.splitlines()) < 35, "a list of forty names takes a few lines"
