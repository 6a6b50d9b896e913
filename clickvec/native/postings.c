/* Sort postings, and find the titles with the best scores: the C versions of the functions in postings.py. A test
   compares them.

   A posting is the position of a title and a code: 256 times the frequency of the word in the title, plus the length of
   the title. The frequency is at most 255, and so is the length. */
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8192, CHUNK = 16, MOST = 255 };

/* Sort the words of titles by word and position. Title k has the next counts[k] entries of `words`. Write where the
   postings of each word begin to `offsets`, which has one more entry than there are words and is 0. Without `positions`
   only count. Return the number of postings; -1 if memory runs out. */
int64_t postings_sort(const int32_t *words, const int32_t *counts, const uint8_t *lengths, int64_t titles,
                      int64_t vocabulary, int64_t *offsets, int32_t *positions, uint16_t *codes) {
    if (!positions) {
        int32_t *seen = malloc(((size_t)vocabulary + 1) * sizeof *seen); /* the last title with each word */
        if (!seen)
            return -1;
        memset(seen, 0xff, ((size_t)vocabulary + 1) * sizeof *seen);
        for (int32_t title = 0; title < titles; title++)
            for (int32_t k = 0; k < counts[title]; k++, words++)
                if (seen[*words] != title) {
                    seen[*words] = title;
                    offsets[*words + 1]++;
                }
        free(seen);
        for (int64_t word = 0; word < vocabulary; word++)
            offsets[word + 1] += offsets[word];
        return offsets[vocabulary];
    }
    int64_t *ends = malloc(((size_t)vocabulary + 1) * sizeof *ends); /* of what is written of each word */
    if (!ends)
        return -1;
    memcpy(ends, offsets, ((size_t)vocabulary + 1) * sizeof *ends);
    for (int32_t title = 0; title < titles; title++)
        for (int32_t k = 0; k < counts[title]; k++, words++) {
            const int64_t end = ends[*words];
            if (end > offsets[*words] && positions[end - 1] == title) {
                if (codes[end - 1] >> 8 < MOST)
                    codes[end - 1] += 256;
            } else {
                positions[end] = title;
                codes[end] = (uint16_t)(256 + lengths[title]);
                ends[*words] = end + 1;
            }
        }
    free(ends);
    return offsets[vocabulary];
}

struct Hit {
    float score;
    int32_t position;
};

/* The best hits so far. The worst of them is the first: every hit is worse than, or the same as, its children. */
struct Heap {
    struct Hit *hits;
    int64_t count, capacity;
    const uint8_t *allowed;
    float least; /* a hit with a lower score is not among the best */
};

/* Equal scores are ordered by position. */
static int is_worse(struct Hit a, struct Hit b) {
    return a.score < b.score || (a.score == b.score && a.position > b.position);
}

/* Move a hit down from `at` to where it belongs. */
static void sink(struct Hit *hits, int64_t count, int64_t at, struct Hit hit) {
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_worse(hits[child + 1], hits[child]))
            child++;
        if (!is_worse(hits[child], hit))
            break;
        hits[at] = hits[child];
    }
    hits[at] = hit;
}

/* Add a hit unless it is not allowed or not among the best. */
static void offer(struct Heap *heap, struct Hit hit) {
    if (heap->allowed && !heap->allowed[hit.position])
        return;
    if (heap->count < heap->capacity) {
        heap->hits[heap->count++] = hit;
        if (heap->count < heap->capacity)
            return;
        for (int64_t at = heap->count / 2; at-- > 0;)
            sink(heap->hits, heap->count, at, heap->hits[at]);
    } else if (is_worse(heap->hits[0], hit)) {
        sink(heap->hits, heap->count, 0, hit);
    }
    if (heap->count == heap->capacity)
        heap->least = heap->hits[0].score;
}

static int best_first(const void *a, const void *b) {
    return is_worse(*(const struct Hit *)a, *(const struct Hit *)b) ? 1 : -1;
}

/* Write the positions and scores of the best k of `size` titles, best first. List i has counts[i] postings; a title
   scores the sum of weights[i] * table[code] over the lists, in their order. Titles are looked at in blocks whose scores
   fit into the cache. `allowed` is null or has a byte for each title. `ends` has room for two numbers for each list.
   Damaged lists, in which positions fall or lie outside, give wrong titles, but nothing outside of the arrays is read.
   Return the number of titles; -1 if memory runs out. */
int64_t postings_best(const int32_t *const *positions, const uint16_t *const *codes, const int64_t *counts,
                      const float *weights, int64_t lists, const float *table, const uint8_t *allowed, int64_t size,
                      int64_t k, int64_t *ends, int64_t *best_positions, float *best_scores) {
    float scores[BLOCK] = {0};
    int64_t *const starts = ends + lists; /* of the postings in the block; they are read up to `ends` */
    struct Heap heap = {malloc(((size_t)k + 1) * sizeof *heap.hits), 0, k, allowed, FLT_MIN};
    if (!heap.hits)
        return -1;
    memset(ends, 0, (size_t)lists * sizeof *ends);
    for (;;) {
        int64_t first = INT64_MAX; /* position of the block, which begins at a multiple of its size */
        for (int64_t i = 0; i < lists; i++) {
            while (ends[i] < counts[i] && (uint64_t)positions[i][ends[i]] >= (uint64_t)size)
                ends[i]++;
            if (ends[i] < counts[i] && positions[i][ends[i]] < first)
                first = positions[i][ends[i]];
        }
        if (first == INT64_MAX || !k)
            break;
        first -= first % BLOCK;
        const uint64_t length = (uint64_t)(size - first < BLOCK ? size - first : BLOCK);
        int64_t added = 0;
        for (int64_t i = 0; i < lists; i++) {
            const int32_t *const at = positions[i];
            const uint16_t *const code = codes[i];
            const int64_t count = counts[i];
            const float weight = weights[i];
            int64_t n = starts[i] = ends[i];
            for (; n < count && (uint64_t)(at[n] - first) < length; n++)
                scores[at[n] - first] += weight * table[code[n]];
            added += n - starts[i];
            ends[i] = n;
        }
        if (added > BLOCK / CHUNK) {
            for (int64_t chunk = 0; chunk < BLOCK; chunk += CHUNK) {
                int any = 0;
                for (int j = 0; j < CHUNK; j++)
                    any |= scores[chunk + j] >= heap.least;
                for (int j = 0; any && j < CHUNK; j++)
                    if (scores[chunk + j] >= heap.least)
                        offer(&heap, (struct Hit){scores[chunk + j], (int32_t)(first + chunk + j)});
            }
            memset(scores, 0, sizeof scores);
        } else { /* few titles: look at those only */
            for (int64_t i = 0; i < lists; i++)
                for (int64_t n = starts[i]; n < ends[i]; n++) {
                    float *const score = scores + (positions[i][n] - first);
                    if (*score >= heap.least)
                        offer(&heap, (struct Hit){*score, positions[i][n]});
                    *score = 0; /* another list may have the same title */
                }
        }
    }
    qsort(heap.hits, (size_t)heap.count, sizeof *heap.hits, best_first);
    for (int64_t n = 0; n < heap.count; n++) {
        best_positions[n] = heap.hits[n].position;
        best_scores[n] = heap.hits[n].score;
    }
    free(heap.hits);
    return heap.count;
}

/* Return the hash of the source that this was compiled from: see build.py. */
const char *postings_source(void) { return SOURCE; }
