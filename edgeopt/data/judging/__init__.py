"""When a result is good enough: accuracy budgets and their metrics."""
