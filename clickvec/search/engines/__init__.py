"""Indexes in databases that users run already. `Index.open(ADDRESS)` opens one like an index folder.

| address.py              | the addresses: postgresql://... and milvus://...                                       |
| engine_opening.py       | open or create the index at an address                                                 |
| postgres_connections.py | connections that threads share, and errors as sentences                                |
| postgres_tables.py      | the tables of an index: documents, words, the model, and which of them are in use      |
| postgres_copy.py        | rows in the binary format of COPY                                                      |
| postgres_build.py       | load a catalogue into new tables, and use them from one moment on                      |
| postgres_filters.py     | filters as SQL                                                                         |
| postgres_scores.py      | BM25 and the fusions as SQL                                                            |
| postgres_words.py       | the search by words                                                                    |
| postgres_documents.py   | the documents                                                                          |
| postgres_view.py        | what a search uses                                                                     |
| postgres_index.py       | add and delete documents in transactions                                               |
| milvus_collection.py    | a collection of vectors in Milvus                                                      |
| milvus_filters.py       | filters as expressions of Milvus                                                       |
| cluster_export.py       | files for OpenSearch and Elasticsearch                                                 |
| milvus_index.py         | vectors in Milvus beside an index of words                                             |
"""
