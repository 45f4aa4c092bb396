"""The page Optimize."""
