"""Which forms the layers get: of a plan, or one for all."""
