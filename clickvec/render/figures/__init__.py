"""Figures. All numbers shown here were computed elsewhere. matplotlib is imported when a figure is drawn."""

from clickvec.render.figures.curves import cost_curve, training_curve
from clickvec.render.figures.gates import draw_gates

__all__ = ["cost_curve", "draw_gates", "training_curve"]
