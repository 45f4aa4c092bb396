"""What people read: one model of its parts, and one writer each for the terminal, Markdown and HTML."""
