"""What the result reaches and how fast it is, and how it is handed out."""
