"""Deployment profiles at work: rebuilding a bundle without searching, one file to send, and what differs."""
