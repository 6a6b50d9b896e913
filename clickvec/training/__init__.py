"""Training: the only package besides `lab` that needs torch. It writes the model folder that `model` reads."""
