"""The page Optimize: settings of a search, its candidates as they race, and its result."""
