"""Text to tokens to letter trigrams to ids."""
