"""Figures. Everything shown here was computed elsewhere; matplotlib is imported when a figure is drawn.

| file          | figures                                                                                 |
|---------------|-----------------------------------------------------------------------------------------|
| `training.py` | how training went: loss and NDCG, and the costs of several systems                      |
| `gates.py`    | the paper's heat maps of a query and a title: gates, cells, outputs, most active cells  |
| `words.py`    | bars and lines: contributions of words, deleting words, function and content words      |
| `maps.py`     | topics of cells as a table of colours, and titles in two dimensions                     |
| `style.py`    | what they share: colours, fonts, and the file                                           |
"""

from clickvec.render.figures.curves import cost_curve, training_curve
from clickvec.render.figures.gates import explanation
from clickvec.render.figures.maps import title_map, topic_map
from clickvec.render.figures.word_bars import contributions, deletion_curves, function_word_bars

__all__ = [
    "contributions", "cost_curve", "deletion_curves", "explanation", "function_word_bars", "title_map", "topic_map",
    "training_curve",
]  # fmt: skip
