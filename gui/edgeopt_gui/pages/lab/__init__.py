"""The page Lab: the searches of several models on several devices, in one table."""
