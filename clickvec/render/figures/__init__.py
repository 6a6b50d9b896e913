"""Figures. All numbers shown here were computed elsewhere. matplotlib is imported when a figure is drawn."""
