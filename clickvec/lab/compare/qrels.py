"""Write judged sets as TREC qrels."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from clickvec.data import JudgedQuery
from clickvec.evaluation.metrics import trec_field
from clickvec.storage import files


def qrels_lines(judged: Iterable[JudgedQuery], gains: bool = False) -> Iterator[str]:
    """Yield lines `qid 0 docid grade`. Raise ClickvecError for an id that a TREC file cannot contain.

    With `gains`, write 2^grade - 1 instead of the grade: trec_eval, which has a linear gain, then gives our NDCG.
    """
    for query in judged:
        query_id = trec_field(query.query_id, "query_id")
        for doc_id, grade in zip(query.doc_ids, query.grades.tolist(), strict=True):
            yield f"{query_id} 0 {trec_field(doc_id, 'doc_id')} {2**grade - 1 if gains else grade}\n"


def write_qrels(path: Path, judged: Iterable[JudgedQuery], gains: bool = False) -> None:
    """Write `qrels_lines` to a file."""
    with files.replacing_file(path) as file:
        file.writelines(line.encode() for line in qrels_lines(judged, gains))
