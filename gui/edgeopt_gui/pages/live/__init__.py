"""The page Live."""
