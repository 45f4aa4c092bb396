"""The requests and answers of OpenAI's protocol for text."""
