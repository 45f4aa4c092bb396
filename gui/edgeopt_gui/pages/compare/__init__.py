"""The page Compare: two models or bundles, side by side."""
