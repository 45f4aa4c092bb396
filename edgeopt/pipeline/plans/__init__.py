"""Plans of a search, most promising first: recipes for the model, and runtime options to begin with."""
