"""Records as blocks (sections, sentences, tables, charts), with writers for the terminal, Markdown and HTML."""
