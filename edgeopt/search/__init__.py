"""The search: which variants and candidates there are, how they are screened and raced, what came out."""
