"""When a result is good enough: accuracy budgets, and the metrics that they are held against."""
