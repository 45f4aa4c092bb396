"""What of a side is timed, and in which stages."""
