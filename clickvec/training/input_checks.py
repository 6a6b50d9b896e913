"""Data, recipe and dev set of a run must fit each other."""

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.evaluation.held_out_clicks import Collection
from clickvec.evaluation.metrics import with_relevant
from clickvec.training.measuring import Dev


def check_inputs(data: Dataset, recipe: Recipe, dev: Dev | None) -> None:
    """Refuse what would only fail, or mislead, an hour later."""
    if data.max_words != recipe.max_words:
        raise ClickvecError(
            f"the data was prepared with max_words {data.max_words}, and the recipe has {recipe.max_words}: prepare it "
            f"again, or add --set max_words={data.max_words}"
        )
    if len(data.trigrams) > recipe.max_trigrams:
        raise ClickvecError(
            f"the data was prepared with {len(data.trigrams):,} trigrams, and the recipe has max_trigrams "
            f"{recipe.max_trigrams:,}: prepare it again, or leave the setting out"
        )
    if recipe.patience and dev is None:
        raise ClickvecError("patience needs a dev set; add --dev")
    if dev is not None and not isinstance(dev, Collection) and not with_relevant(dev):
        raise ClickvecError("the dev set has no query with a relevant title (grade 1 or more), so it measures nothing")
