"""What a model does, as plain data computed from an `Encoder` with NumPy.

| module              | answers                                                                                        |
|---------------------|------------------------------------------------------------------------------------------------|
| explainer.py        | `clickvec.explain`: why do a query and a title have their score?                               |
| explained_pair.py   | which words and cells produce the score?                                                       |
| fused_score.py      | how do words and vectors make the score of a hit?                                              |
| contributions.py    | three ways to compute what each word contributes                                               |
| why_not.py          | why does a title not rank above another one, and which edits would help?                       |
| trial.py            | how does the cosine grow as the words of a changed query or title are read?                    |
| highlight.py        | which words of the hits matched?                                                               |
| keywords.py         | which words do the cells detect?                                                               |
| topics.py           | which words does each cell respond to?                                                         |
| neighbours.py       | which words and titles are nearest to a word?                                                  |
| title_map.py        | which titles are similar? A map in two dimensions                                              |
| report.py           | everything `clickvec report` shows; ranking.py computes a part of it                           |

Open reading.py first: the vector of a text is the sum of the changes of the output from word to word, and most of what
is here follows from that. side.py keeps what is known about one text.
"""

from clickvec.explanation.contributions import METHODS
from clickvec.explanation.explained_pair import Pair
from clickvec.explanation.explainer import Explanation, explain, explain_hits
from clickvec.explanation.highlight import TitleWord, highlight
from clickvec.explanation.keywords import Keywords, Rule, keywords
from clickvec.explanation.reading import Reading, read
from clickvec.explanation.title_map import map_titles
from clickvec.explanation.trial import Trial, try_out
from clickvec.explanation.why_not import WhyNot

__all__ = [
    "METHODS", "Explanation", "Keywords", "Pair", "Reading", "Rule", "TitleWord", "Trial", "WhyNot", "explain",
    "explain_hits", "highlight", "keywords", "map_titles", "read", "try_out",
]  # fmt: skip
