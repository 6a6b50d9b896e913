"""Training: the only part of clickvec that needs torch. It writes the model folder that the run time reads."""
