"""Searches for decoders with a cache: the texts, and the two workloads that are made of them."""
