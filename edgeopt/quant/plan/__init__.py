"""Which layer gets which form: the most time for the error that is allowed."""
