"""Text for a terminal or a pipe. All numbers shown here were computed elsewhere."""
