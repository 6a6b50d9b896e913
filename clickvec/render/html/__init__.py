"""Pages for a browser: one file each, without scripts. All numbers on them were computed elsewhere."""
