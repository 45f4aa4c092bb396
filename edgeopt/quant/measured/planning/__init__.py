"""The schemes of the layers: from a plan, or one for all."""
