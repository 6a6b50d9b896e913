/* A hash table of tokens: the C version of TokenTable in text/token_table.py. A test compares the two.

   The input is UTF-8, one text per line. words.py has normalised every text that is not ASCII, so this file only has to
   lower-case ASCII letters and split at ASCII white space. Tokens are first written behind the last token of the table.
   When some of them are together they are looked up: those that are new move down to the end of the table, and the next
   tokens overwrite the others. Looking them up together is faster because the memory that each of them needs is fetched
   while the others are read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BITS = 8, TOGETHER = 64 };
#define SPACES 0x1f0003e00ULL /* bit b is set if Python's str.split() splits at byte b */

struct Slot {
    uint32_t hash;
    int32_t id_plus_one; /* 0 if the slot is free */
    int64_t start;       /* of the token in `letters` */
};

/* A token that is written behind the last token of the table and not looked up yet. A line feed follows it. */
struct Pending {
    int64_t start, length;
    uint32_t hash;
};

struct Table {
    struct Slot *slots; /* 1 << bits slots, at most half of them in use */
    int bits;
    uint64_t seed;
    uint8_t *letters; /* the tokens in order of their ids, each followed by a line feed */
    int64_t letters_capacity;
    int64_t *starts; /* token k begins at letters[starts[k]]; the next new token begins at starts[count] */
    int64_t starts_capacity, count;
};

static int is_space(uint8_t byte) { return byte <= ' ' && (SPACES >> byte & 1); }

/* Grow an array to hold at least `wanted` items of `size` bytes. Return the array, or null if memory runs out. */
static void *with_capacity(void *items, int64_t *capacity, int64_t wanted, size_t size) {
    if (wanted <= *capacity)
        return items;
    void *grown = realloc(items, 2 * (size_t)wanted * size);
    if (grown)
        *capacity = 2 * wanted;
    return grown;
}

static uint64_t add_letter(uint64_t hash, uint8_t letter) { return (hash ^ letter) * 0x100000001b3ULL; } /* FNV-1a */

/* Fold a hash into the 32 bits that are kept. The multiplication spreads the last letters over all of them. */
static uint32_t folded(uint64_t hash) { return (uint32_t)(hash * 0x9e3779b97f4a7c15ULL >> 32); }

/* Return the free slot in which a token with this hash belongs. */
static struct Slot *free_slot(struct Slot *slots, int bits, uint32_t hash) {
    const uint64_t last = ((uint64_t)1 << bits) - 1;
    uint64_t place = hash >> (32 - bits);
    while (slots[place].id_plus_one)
        place = (place + 1) & last;
    return slots + place;
}

/* Make sure that one more token has a slot. Return 0 if memory runs out. */
static int grow_slots(struct Table *table) {
    if (2 * (table->count + 1) <= (int64_t)1 << table->bits)
        return 1;
    const int bits = table->bits + 1;
    struct Slot *slots = calloc((size_t)1 << bits, sizeof *slots);
    if (!slots)
        return 0;
    for (const struct Slot *slot = table->slots; slot < table->slots + ((int64_t)1 << table->bits); slot++)
        if (slot->id_plus_one)
            *free_slot(slots, bits, slot->hash) = *slot;
    free(table->slots);
    table->slots = slots;
    table->bits = bits;
    return 1;
}

/* Return the id of a token that is known; -1 if it is new. No token has a line feed, so the one that follows each of them
   tells whether the lengths are equal. */
static int32_t find(const struct Table *table, const struct Pending *token) {
    const uint64_t last = ((uint64_t)1 << table->bits) - 1;
    for (uint64_t place = token->hash >> (32 - table->bits);; place = (place + 1) & last) {
        const struct Slot *slot = table->slots + place;
        if (!slot->id_plus_one)
            return -1;
        if (slot->hash == token->hash &&
            !memcmp(table->letters + slot->start, table->letters + token->start, (size_t)token->length + 1))
            return slot->id_plus_one - 1;
    }
}

/* Move a new token to the end of the table. Return its id; -1 if memory runs out. */
static int32_t add(struct Table *table, const struct Pending *token) {
    int64_t *starts = with_capacity(table->starts, &table->starts_capacity, table->count + 2, sizeof *starts);
    if (!starts)
        return -1;
    table->starts = starts;
    if (table->count == INT32_MAX - 1 || !grow_slots(table))
        return -1;
    const int32_t id = (int32_t)table->count++;
    const int64_t start = starts[id];
    memmove(table->letters + start, table->letters + token->start, (size_t)token->length + 1);
    starts[id + 1] = start + token->length + 1;
    *free_slot(table->slots, table->bits, token->hash) = (struct Slot){token->hash, id + 1, start};
    return id;
}

/* Write the ids of the pending tokens. Return 0 if memory runs out. */
static int look_up(struct Table *table, const struct Pending *tokens, int count, int32_t *ids) {
    for (int k = 0; k < count; k++) {
        const struct Slot *slot = table->slots + (tokens[k].hash >> (32 - table->bits));
        if (slot->id_plus_one)
            __builtin_prefetch(table->letters + slot->start);
    }
    for (int k = 0; k < count; k++) {
        ids[k] = find(table, tokens + k);
        if (ids[k] < 0 && (ids[k] = add(table, tokens + k)) < 0)
            return 0;
    }
    return 1;
}

/* Read texts of at most `max_words` tokens each. With 0 every text is one token, even if it has no words.
   Write the token ids of text k to ids[offsets[k]] ... ids[offsets[k + 1] - 1]; `ids` has room for all of them. Return
   the number of ids, or -1 if memory runs out: the table may then hold some of the new tokens already. */
int64_t words_read(struct Table *table, const uint8_t *at, int64_t length, int64_t max_words, int32_t *ids,
                   int64_t *offsets) {
    const uint8_t *const end = at + length;
    int64_t count = 0; /* ids, those of pending tokens included */
    /* A token and its line feed take no more room than the token and the white space behind it. */
    const int64_t wanted = table->starts[table->count] + length + 1;
    uint8_t *letters = with_capacity(table->letters, &table->letters_capacity, wanted, 1);
    if (!letters)
        return -1;
    table->letters = letters;
    struct Pending tokens[TOGETHER];
    int pending = 0;
    int64_t write = table->starts[table->count];
    for (*offsets++ = 0;; at++) {
        int64_t start = write, words = 0;
        uint64_t hash = table->seed;
        int ended = 0; /* the text */
        while (!ended) {
            while (at < end && is_space(*at) && *at != '\n')
                at++;
            ended = at == end || *at == '\n';
            if (!ended) {
                if (write > start) /* the last token of a long text holds several words */
                    hash = add_letter(hash, letters[write++] = ' ');
                for (; at < end && !is_space(*at); at++) {
                    const uint8_t letter = *at - 'A' < 26u ? *at + 32 : *at;
                    hash = add_letter(hash, letters[write++] = letter);
                }
            }
            if (ended ? write > start || !max_words : ++words < max_words) {
                tokens[pending] = (struct Pending){start, write - start, folded(hash)};
                __builtin_prefetch(table->slots + (tokens[pending].hash >> (32 - table->bits)));
                letters[write++] = '\n';
                count++;
                if (++pending == TOGETHER) {
                    if (!look_up(table, tokens, pending, ids + count - pending))
                        return -1;
                    pending = 0;
                    write = table->starts[table->count];
                }
                start = write;
                hash = table->seed;
            }
        }
        *offsets++ = count;
        if (at == end)
            return look_up(table, tokens, pending, ids + count - pending) ? count : -1;
    }
}

int64_t words_count(const struct Table *table) { return table->count; }

/* Point `letters` at the tokens with the ids `first` to `stop` - 1. Return the number of their letters. */
int64_t words_letters(const struct Table *table, int64_t first, int64_t stop, const uint8_t **letters) {
    *letters = table->letters + table->starts[first];
    return table->starts[stop] - table->starts[first];
}

void words_free(struct Table *table) {
    if (!table)
        return;
    free(table->slots);
    free(table->letters);
    free(table->starts);
    free(table);
}

/* Return an empty table, or null if memory runs out. A random seed keeps anybody from choosing words that collide. */
struct Table *words_new(uint64_t seed) {
    struct Table *table = calloc(1, sizeof *table);
    if (!table)
        return 0;
    *table = (struct Table){.bits = FIRST_BITS, .seed = seed};
    table->slots = calloc((size_t)1 << FIRST_BITS, sizeof *table->slots);
    table->starts = with_capacity(0, &table->starts_capacity, 1, sizeof *table->starts);
    if (!table->slots || !table->starts) {
        words_free(table);
        return 0;
    }
    table->starts[0] = 0;
    return table;
}

/* Return the hash of the source that this was compiled from: see build.py. */
const char *words_source(void) { return SOURCE; }
