"""clickvec: a search click log in, a small semantic search engine that you can look inside out.

The names below are imported when they are first used, so that `clickvec --help` need not wait for NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickvec.errors import ClickvecError
    from clickvec.evaluation.judged_lists import evaluate
    from clickvec.evaluation.result import Evaluation
    from clickvec.explanation import Explanation, explain
    from clickvec.model.encoder import Encoder, Trace
    from clickvec.search.index import Hit, Index

__all__ = ["ClickvecError", "Encoder", "Evaluation", "Explanation", "Hit", "Index", "Trace", "evaluate", "explain"]
__version__ = "0.1.0"

_HOMES = {
    "ClickvecError": "errors",
    "Encoder": "model.encoder",
    "Evaluation": "evaluation.result",
    "Explanation": "explanation",
    "Hit": "search.index",
    "Index": "search.index",
    "Trace": "model.encoder",
    "evaluate": "evaluation.judged_lists",
    "explain": "explanation",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOMES:
        raise AttributeError(f"module 'clickvec' has no attribute {name!r}")
    return getattr(import_module(f"clickvec.{_HOMES[name]}"), name)
