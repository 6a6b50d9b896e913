"""Files to fields: bytes become lines, lines become rows of the columns that a reader asks for."""
