"""Text of language models: tokenizers, chat templates, decoding of generated tokens."""
