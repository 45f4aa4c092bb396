"""Properties of operators, and helpers to match and change them; contains no passes."""
