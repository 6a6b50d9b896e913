"""Search by words: tokens, postings, BM25, and the nearest words for a misspelled one."""
