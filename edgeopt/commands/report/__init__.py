"""What is known of a bundle as a document: HTML for people, Markdown for elsewhere, JSON for programs."""
