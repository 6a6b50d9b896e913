"""The command line: one file for each group of verbs. Nothing imports it."""
