"""The headless agent: serves bundles on a device."""
