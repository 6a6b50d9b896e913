"""Terminal, HTML and figures. Computes nothing."""
