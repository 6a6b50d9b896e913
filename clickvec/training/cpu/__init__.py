"""The fast path of training on a CPU."""
