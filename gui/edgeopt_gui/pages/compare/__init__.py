"""The page Compare: two models, bundles or saved bench reports, side by side."""
