"""Predicted plans for a device that is not here, from its record: `edgeopt optimize --device`."""
