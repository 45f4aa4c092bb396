"""Planning for a device that is not here, from its record: what is said of it is predicted, not measured."""
