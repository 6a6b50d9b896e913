"""Checks of the paper's claims about gates, cells and topics, measured over a whole judged set."""
