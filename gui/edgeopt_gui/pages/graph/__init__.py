"""The page Graph: the open model as a diagram with colours for time, bytes and precision."""
