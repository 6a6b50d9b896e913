"""clickvec trains a small semantic search model from a search click log and explains every result.

The public names are imported when they are first used, so that `clickvec --help` does not wait for NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickvec.config import Recipe
    from clickvec.data import read_clicks
    from clickvec.errors import ClickvecError
    from clickvec.evaluation.evaluate import evaluate
    from clickvec.evaluation.result import Evaluation
    from clickvec.explanation import Explanation, explain
    from clickvec.model.encoder import Encoder, Trace
    from clickvec.search.index import Hit, Index
    from clickvec.training.continuing import continue_training
    from clickvec.training.trainer import train

__all__ = [
    "ClickvecError", "Encoder", "Evaluation", "Explanation", "Hit", "Index", "Recipe", "Trace", "continue_training",
    "evaluate", "explain", "read_clicks", "train",
]  # fmt: skip
__version__ = "0.1.0"

_MODULES = {
    "ClickvecError": "errors",
    "Encoder": "model.encoder",
    "Evaluation": "evaluation.result",
    "Explanation": "explanation",
    "Hit": "search.index",
    "Index": "search.index",
    "Recipe": "config",
    "Trace": "model.encoder",
    "continue_training": "training.continuing",
    "evaluate": "evaluation.evaluate",
    "explain": "explanation",
    "read_clicks": "data",
    "train": "training.trainer",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _MODULES:
        raise AttributeError(f"module 'clickvec' has no attribute {name!r}")
    try:
        return getattr(import_module(f"clickvec.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from clickvec.errors import missing_extra

        raise missing_extra("torch", "train") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
