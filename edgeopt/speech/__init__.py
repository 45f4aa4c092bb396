"""Speech models: audio files, their features, and the tokens of Whisper's prompts."""
