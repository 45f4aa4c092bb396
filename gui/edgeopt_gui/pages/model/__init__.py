"""The page Model: operators, cost, opportunities, runtimes and weights of the open model."""
