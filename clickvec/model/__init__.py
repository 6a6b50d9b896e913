"""A trained model: the paper's equations (open forward.py first), the fast path, the folder, the encoder."""
