"""The index: titles that can be searched by words and by vectors while they change.

| index.py        | `clickvec.Index`: build, open and change an index; searchable.py has what can be asked of it       |
| retrieval.py    | find candidates by words, by vectors or by both, in one view of the index                          |
| fusion.py       | the score of a candidate, from its cosine, BM25 and facts about query and title                    |
| hits.py         | the results that a caller gets                                                                     |
| rerank.py       | re-order the results of another search engine; needs no index                                      |
| documents/      | the documents in SQLite, from which everything else is derived                                     |
| payload/        | the fields of the documents: filters and facets                                                    |
| lexical/        | words: tokens, postings, BM25, misspelled words                                                    |
| vectors/        | vectors: exact and approximate search, files of vectors                                            |
| segments/       | words, vectors and fields of most documents, in immutable memory-mapped files                      |
| view_protocol.py | what a search needs of an index, wherever it is kept                                              |
| engines/        | indexes in databases: PostgreSQL, Milvus                                                           |
| live/           | a segment and the documents that were added since; new segments; compaction                        |

documents/, payload/, lexical/ and vectors/ do not import each other. segments/ imports them, live/ imports segments/,
and the modules beside them import live/.
"""
