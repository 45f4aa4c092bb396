"""Report on a bundle as a document: HTML for people, Markdown for other uses, JSON for programs."""
