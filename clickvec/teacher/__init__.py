"""A teacher: vectors of the texts of a dataset, from a larger model, that a model in training learns to agree with."""
