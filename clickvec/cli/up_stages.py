"""The stages of `clickvec up`: what each depends on, what it does, and what it tells.

Each does what the verb of the same name does. A stage depends on the bytes of what it reads and not on the stages
before it: if a changed catalogue gives the same data folder, the model is not trained again.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clickvec.cli import doctor_verb, index_verbs, prepare, up_measures
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import file_names, read_catalogue
from clickvec.cli.streams import print_message
from clickvec.cli.up_folder import Inputs, Told, UpFolder, hash_files, hash_value
from clickvec.errors import ClickvecError, missing_extra
from clickvec.render.labels import counted

if TYPE_CHECKING:
    from clickvec.config import Recipe
    from clickvec.data import Columns
    from clickvec.data.cleaning import Cleaning
    from clickvec.search.fusion import Fusion

IMPRESSIONS = 600_000  # of the built-in log, as in `clickvec demo`
MANY_PAIRS = 50_000  # with more pairs, FEWER_EPOCHS give nearly the same model in less time (docs/up.md)
FEWER_EPOCHS = 3
COLUMN_OPTIONS = ("--columns", "--delimiter", "--encoding")
NEW_FORMATS = 5  # raise this if a stage gives another result for the same inputs


@dataclass(frozen=True)
class Options:
    """How the stages do their work: the options of their verbs."""

    queries: Path | None
    judged: Path | None
    max_bad: float
    cleaning: "Cleaning"
    memory: int | None
    recipe: str
    settings: tuple[str, ...]
    device: str
    vectors: str
    search: str
    numbers: str


@dataclass(frozen=True)
class Plan:
    """What the user has asked for. Without logs, the built-in one is used."""

    folder: UpFolder
    given: list[Path]
    given_catalogue: Path | None
    columns: "Columns"
    options: Options

    @property
    def is_built_in(self) -> bool:
        """Whether the built-in log is used."""
        return not self.given

    @property
    def logs(self) -> list[Path]:
        """The click logs."""
        return self.given or [self.folder.site / "clicks.tsv.gz"]

    @property
    def catalogue(self) -> Path | None:
        """The catalogue; None if the titles of the log are the catalogue."""
        return self.folder.site / "titles.tsv.gz" if self.is_built_in else self.given_catalogue

    @property
    def judged(self) -> Path | None:
        """A judged set to measure on as well. The built-in log has one."""
        return self.folder.site / "test.tsv.gz" if self.is_built_in else self.options.judged

    def catalogue_titles(self) -> list[str]:
        """Read the titles of the catalogue; none if the titles of the log are the catalogue."""
        if self.catalogue is None:
            return []
        return [one.title for one in read_catalogue(self.catalogue, self.options.max_bad, self.columns, "unused")]

    @cached_property
    def files(self) -> dict[str, str]:
        """Hashes of the log, the catalogue and the names of columns."""
        from clickvec.data.parsing.paths import log_files

        return {
            "the log": hash_files(log_files(self.logs)),
            "the catalogue": hash_files([self.catalogue] if self.catalogue else []),
            "--queries": hash_files([self.options.queries] if self.options.queries else []),
            "--columns": hash_value([dict(self.columns.names), self.columns.header]),
            **{f"--{name}": hash_value(getattr(self.columns, name)) for name in ("delimiter", "encoding")},
        }

    @property
    def chosen_recipe(self) -> "Recipe":
        """The recipe that the options name."""
        from clickvec import config

        return config.recipe(self.options.recipe, settings=self.options.settings)

    @property
    def recipe(self) -> "Recipe":
        """The recipe to train by. Without a wish of the user, it has fewer epochs for many pairs."""
        from clickvec import config
        from clickvec.data import data_folder

        is_free = self.options.recipe == "default" and not any(
            setting.partition("=")[0].strip() == "epochs" for setting in self.options.settings
        )
        if is_free and len(data_folder.load(self.folder.data).pair_query) > MANY_PAIRS:
            return config.recipe(self.chosen_recipe, epochs=FEWER_EPOCHS)
        return self.chosen_recipe


class Stage(NamedTuple):
    """A stage: what it depends on, the files that show that it is done, and the work."""

    name: str
    inputs: Callable[[Plan], Inputs]
    results: Callable[[UpFolder], tuple[Path, ...]]
    run: Callable[[Plan], Told]
    identity: Callable[[UpFolder], Any] = lambda folder: None  # of a result that other commands may change


def with_formats(inputs: dict[str, str]) -> Inputs:
    """Add the formats of clickvec's files: a stage of another version is done again if they have changed."""
    from clickvec.data.data_folder import FORMAT
    from clickvec.model.folder import MODEL_FORMAT
    from clickvec.search.live.index_folder import INDEX_FORMAT

    return {**inputs, "the version of clickvec": f"{NEW_FORMATS}.{FORMAT}.{MODEL_FORMAT}.{INDEX_FORMAT}"}


# --- the stages --------------------------------------------------------------------------------------------------


def simulate(plan: Plan) -> Told:
    """Write the built-in log."""
    from clickvec.lab.simulate import write

    facts = write(plan.folder.site, IMPRESSIONS, log=False)
    return Told(
        f"A small web search engine, simulated: {counted(facts.clicks, 'click')}. Half of the clicked titles share no "
        "word with their query."
    )


def doctor(plan: Plan) -> Told:
    """Examine the log."""
    found = doctor_verb.examine_log(
        plan.logs, plan.columns, plan.chosen_recipe, catalogue=plan.catalogue, queries=plan.options.queries,
        device=plan.options.device, k_anonymous=plan.options.cleaning.k_anonymous,
    )  # fmt: skip
    up_measures.write_doctor(plan.folder.about, found)
    texts = [finding.text for finding in found.findings if finding.name in ("clicks", "shared_words")]
    act = [finding.heading for finding in found.findings if finding.act]
    page = plan.folder.about / "doctor.html"
    needs = f"Look at: {', '.join(act)} ({page})." if act else f"No finding needs attention ({page})."
    return Told(" ".join([*texts, needs]))


def prepare_data(plan: Plan) -> Told:
    """Clean the log, hold queries out, and write the data folder and the titles."""
    from clickvec.data import data_folder
    from clickvec.data.held_out import fewest_queries
    from clickvec.data.preparation import Preparation
    from clickvec.evaluation.test_set import Catalogue

    folder, options, recipe = plan.folder, plan.options, plan.chosen_recipe
    settings = Preparation(
        recipe.max_words, recipe.max_trigrams, options.cleaning, hold_out=True, whole_words=recipe.whole_words,
        memory=options.memory or prepare.memory_for(plan.logs), frequent=up_measures.SHOWN_QUERIES,
    )  # fmt: skip
    report = prepare.write_folder(
        plan.logs, folder.data, settings, plan.columns, plan.catalogue, options.queries, options.max_bad
    )
    data, texts = data_folder.load_with_texts(folder.data)
    titles = Catalogue(texts.titles[:])
    for part in texts.held_out or ():
        titles.add(part.titles)
    up_measures.write_titles(folder.titles, titles.titles)
    if find_spec("msgspec") is not None:  # else there is no page
        from clickvec.serve.about_folder import write_queries

        write_queries(folder.about, report.frequent)
    pairs = counted(len(data.pair_query), "pair")
    if texts.held_out is None:
        return Told(
            f"{pairs} to train on. None is held out, because the log has fewer than {fewest_queries():,} different "
            "queries."
        )
    dev, test = (f"{len(dict.fromkeys(part.queries)):,}" for part in texts.held_out)
    return Told(f"{pairs} to train on. Held out: {dev} queries to choose the epoch, and {test} to measure.")


def train(plan: Plan) -> Told:
    """Train the model. Resume from a checkpoint if there is one of the same data and settings."""
    if find_spec("torch") is None:
        raise missing_extra("torch", "train")
    from clickvec.training.process_settings import tuned_for_training

    folder = plan.folder
    with tuned_for_training():
        from clickvec.data import data_folder, dataset
        from clickvec.evaluation.fitting import verdict
        from clickvec.training.checkpoint import CheckpointError
        from clickvec.training.fusing import LogTexts
        from clickvec.training.loop import run_training
        from clickvec.training.measuring import folder_parts

        data, texts = data_folder.load_with_texts(folder.data)
        dataset.check(data)
        recipe, titles = plan.recipe, plan.catalogue_titles()
        parts = folder_parts(folder.data, titles) if has_held_out(folder) else None
        options: dict[str, Any] = {"dev": parts[0] if parts else None, "source": file_names(plan.logs)}
        options |= {"device": plan.options.device, "texts": LogTexts(texts, titles)}
        is_unfinished = (folder.path / "model.run" / "checkpoint.safetensors").exists()
        try:
            model = run_training(
                data, recipe, folder.model, resume=is_unfinished, overwrite=True, progress=Bar(), **options
            )
        except CheckpointError:
            print_message("The checkpoint is of other data or settings, or damaged, so training starts again")
            model = run_training(data, recipe, folder.model, overwrite=True, progress=Bar(), **options)
    kept = model.training["kept"]
    text = f"{counted(recipe.epochs, 'epoch')} over {counted(len(data.pair_query), 'pair')}."
    if recipe.epochs < plan.chosen_recipe.epochs:
        text += (
            f" {FEWER_EPOCHS} epochs instead of {plan.chosen_recipe.epochs}, because there are more than "
            f"{MANY_PAIRS:,} pairs; --set epochs={plan.chosen_recipe.epochs} keeps them."
        )
    if "dev" in kept:
        text += f" Epoch {kept['epoch']} is kept: NDCG@10 {kept['dev']['NDCG@10']:.1f} on the queries for choosing."
    if model.fusion_report:
        text = f"{text} {verdict(model.fusion_report)}".rstrip()
    return Told(text)


def index(plan: Plan) -> Told:
    """Index the titles. Words and vectors make the score as training has chosen."""
    from clickvec.data import BadLines, Columns, stream_titles
    from clickvec.model.encoder import Encoder

    folder, options, bad = plan.folder, plan.options, BadLines()
    columns = plan.columns if plan.catalogue else Columns()
    catalogue = plan.catalogue or folder.titles
    numbers = index_verbs.chosen_numbers(options.numbers, catalogue, columns)
    titles = stream_titles(catalogue, bad, options.max_bad, columns, distinct=True)
    documents = index_verbs.documents_in(titles, numbers, catalogue, columns)
    with index_verbs.create(
        folder.index, Encoder.load(folder.model), documents, bad, overwrite=True, vectors=options.vectors,
        search=options.search,
    ) as made:  # fmt: skip
        source = "of the catalogue" if plan.catalogue else "of the log, with row numbers as ids"
        return Told(f"{counted(len(made), 'title')} {source}, {_how_searched(made.fusion)}.")


def _how_searched(fusion: "Fusion") -> str:
    if fusion == type(fusion).alone("words"):
        return "to search by words; vectors only order titles that match equally well"
    score = "the probability of a click" if fusion.is_probability else f"fused by {fusion.method}"
    return f"to search by words and vectors; the score is {score}"


def measure(plan: Plan) -> Told:
    """Measure the index on held-out clicks beside BM25, and how fast it is."""
    return up_measures.measure(plan.folder, plan.judged, file_names(plan.logs), plan.options.max_bad)


# --- what they depend on -----------------------------------------------------------------------------------------


def has_held_out(folder: UpFolder) -> bool:
    """Return whether the data folder holds queries out."""
    return (folder.data / "test.tsv").exists()


def _simulate_inputs(plan: Plan) -> Inputs:
    return {"the built-in log": str(IMPRESSIONS)}


def _doctor_inputs(plan: Plan) -> Inputs:
    recipe, least = asdict(plan.chosen_recipe), plan.options.cleaning.k_anonymous
    return {**plan.files, "the recipe": hash_value(recipe), "--k-anonymous": hash_value(least)}


def _prepare_inputs(plan: Plan) -> Inputs:
    recipe = plan.chosen_recipe
    rules = {f"--{name.replace('_', '-')}": value for name, value in asdict(plan.options.cleaning).items()}
    return {
        **plan.files,
        **{name: hash_value(sorted(value) if isinstance(value, frozenset) else value) for name, value in rules.items()},
        "the recipe": hash_value([recipe.max_words, recipe.max_trigrams, recipe.whole_words]),
    }


def _train_inputs(plan: Plan) -> Inputs:
    recipe = hash_value(asdict(plan.recipe))
    return {"the prepared data": hash_files([plan.folder.data]), "the recipe": recipe}


def _index_inputs(plan: Plan) -> Inputs:
    from clickvec.model.folder import open_model

    folder, model = plan.folder, open_model(plan.folder.model)
    source = {"the titles": hash_files([folder.titles])}
    if plan.catalogue:
        source = {name: plan.files[name] for name in ("the catalogue", *COLUMN_OPTIONS)}
    options = {f"--{name}": getattr(plan.options, name) for name in ("vectors", "search", "numbers")}
    return {"the model": model.fingerprint, "the fusion": hash_value(model.fusion), **source, **options}


def _measure_inputs(plan: Plan) -> Inputs:
    folder = plan.folder
    held_out = [folder.data / name for name in ("dev.tsv", "test.tsv")] if has_held_out(folder) else []
    judged = [plan.judged] if plan.judged else []
    index = hash_value(_index_contents(folder)) if (folder.index / "index.json").exists() else ""
    return {**_index_inputs(plan), "the index": index, "held-out clicks": hash_files([*held_out, *judged])}


def _index_contents(folder: UpFolder) -> list[Any]:
    from clickvec.search.live.index_folder import contents_of

    return list(contents_of(folder.index))


SIMULATE = Stage("simulate", _simulate_inputs, lambda folder: (folder.site / "topics.tsv.gz",), simulate)
STAGES = (
    Stage(
        "doctor", _doctor_inputs, lambda folder: (folder.about / "doctor.json", folder.about / "doctor.html"), doctor
    ),
    Stage("prepare", _prepare_inputs, lambda folder: (folder.data / "data.json", folder.titles), prepare_data),
    Stage("train", _train_inputs, lambda folder: (folder.model / "config.json",), train),
    Stage("index", _index_inputs, lambda folder: (folder.index / "index.json",), index, _index_contents),
    Stage("measure", _measure_inputs, lambda folder: (folder.about / "measured.json",), measure),
)


def is_done(stage: Stage, plan: Plan) -> bool:
    """Return whether a stage has been done with the same inputs, and its result is there."""
    record = plan.folder.record(stage.name)
    is_there = all(path.exists() for path in stage.results(plan.folder))
    return record is not None and is_there and record.inputs == dict(with_formats(dict(stage.inputs(plan))))


def is_changed(stage: Stage, folder: UpFolder) -> bool:
    """Return whether other commands have changed the result of a stage since it was done."""
    record = folder.record(stage.name)
    if record is None or record.result is None or not all(path.exists() for path in stage.results(folder)):
        return False
    return bool(stage.identity(folder) != record.result)


def check_unchanged(stages: Sequence[Stage], plan: Plan) -> None:
    """Refuse to replace a result that other commands have changed since its stage was done."""
    last = next((at for at, stage in enumerate(stages) if is_changed(stage, plan.folder)), None)
    if last is None:
        return
    # The doctor changes nothing that others read. The inputs of a stage are known if those before it are done.
    for stage in stages[: last + 1]:
        if stage.name != "doctor" and not is_done(stage, plan):
            raise ClickvecError(
                f"{plan.folder.index} must be built again, but it has changed since up built it (titles added or "
                "deleted, or retrained); choose another --out, or delete it"
            )
