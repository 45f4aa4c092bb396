"""Agents as all pages use them: addresses, access and deployments."""
