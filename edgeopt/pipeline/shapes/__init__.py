"""`--shape`: the sizes of open dimensions, samples of these sizes, and programs for them."""
