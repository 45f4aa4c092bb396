"""The page Precision: a scheme for each layer, with the reason, and the plans between accuracy and speed."""
