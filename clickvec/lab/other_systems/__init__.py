"""The systems of the comparison that the trainer does not train: PLSA, Doc2Vec, Skip-Thought, transformer, hybrids."""
