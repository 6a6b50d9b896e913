"""Data, recipe and dev set of a run must fit each other."""

import dataclasses
import logging

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.evaluation.test_set import TestSet
from clickvec.text.trigrams import count_units, is_whole_word

log = logging.getLogger(__name__)


def with_words_of(data: Dataset, recipe: Recipe) -> Recipe:
    """Return the recipe without whole words if the data was prepared without: the model must not claim to have them."""
    if data.whole_words or not recipe.whole_words:
        return recipe
    log.info("The data was prepared without whole words, so the model has none.")
    return dataclasses.replace(recipe, whole_words=False)


def check_inputs(data: Dataset, recipe: Recipe, dev: TestSet | None) -> None:
    """Refuse what would only fail, or mislead, an hour later."""
    if data.max_words != recipe.max_words:
        raise ClickvecError(
            f"the data was prepared with max_words {data.max_words}, and the recipe has {recipe.max_words}: prepare it "
            f"again, or add --set max_words={data.max_words}"
        )
    if len(data.trigrams) > recipe.max_trigrams:
        units = " and ".join(f"{count:,} {name}" for name, count in count_units(data.trigrams).items())
        raise ClickvecError(
            f"the data was prepared with {units}, and the recipe has max_trigrams {recipe.max_trigrams:,}: prepare it "
            "again, or leave the setting out"
        )
    if not recipe.whole_words and any(map(is_whole_word, data.trigrams)):
        raise ClickvecError(
            "the data was prepared with whole words, and the recipe has whole_words=false: prepare it again with "
            "--trigrams-only, or add --set whole_words=true"
        )
    if recipe.patience and dev is None:
        raise ClickvecError("patience needs a dev set; add --dev")
    if dev is not None and not dev.queries:
        raise ClickvecError("the dev set has no query with a relevant title (grade 1 or more), so it measures nothing")
