"""What GET /topics answers: the words that each cell of the model responds to."""

import numpy as np

from clickvec.explanation.topics import detect, topics
from clickvec.search.live.view import View
from clickvec.serve.endpoint import Call
from clickvec.serve.schemas import CellTopic, TopicsResponse, TopicWordCount
from clickvec.serve.service import Service

_TITLES = 2_000  # in the sample


def _sample_titles(view: View) -> list[str]:
    """Return titles at random positions, the same ones each time."""
    count = min(_TITLES, view.size)
    positions = np.sort(np.random.default_rng(0).choice(view.size, count, replace=False))
    if view.alive is not None:
        positions = positions[view.alive[positions]]
    return [document.title for document in view.documents.get(view.seqs_at(positions)).values()]


def cell_topics(service: Service, call: Call) -> TopicsResponse:
    """Return the words that each cell detects, over a sample of the titles."""
    encoder = service.index.encoder
    with service.topics_lock:  # computed once, even if many ask at once
        if encoder.fingerprint not in service.topics:
            titles = _sample_titles(service.index.view())
            found = topics(detect(encoder, titles, side="title"), 10) if titles else None
            listed = sorted(found.topics, key=lambda topic: topic.worth, reverse=True) if found else []
            service.topics = {
                encoder.fingerprint: TopicsResponse(
                    len(titles),
                    [
                        CellTopic(
                            topic.dimension, topic.cell, topic.way, topic.sign, topic.detections,
                            round(topic.specificity, 4),
                            [TopicWordCount(word.word, word.count, round(word.lift, 2)) for word in topic.words],
                        )
                        for topic in listed if topic.detections
                    ],
                )
            }  # fmt: skip
        response: TopicsResponse = service.topics[encoder.fingerprint]
    return response
