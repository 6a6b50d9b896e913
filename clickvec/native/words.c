/* TokenTable of text.py once more; read that one first. A test binds the two.

   Texts come as UTF-8 with a line feed between them. What is not ASCII has been normalised, and has only spaces for white
   space: words.py sees to it. Of the rest, capitals and white space are dealt with here. A token is written behind the
   last one that is kept, with capitals made small; if it is new it stays there, and else the next one is written over it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BITS = 8 };
#define SPACES 0x1f0003e00ULL /* bit b is set where Python's split() takes the byte b for white space */

struct Slot {
    uint32_t hash;
    int32_t taken; /* 1 + the number of a token; 0 where there is none */
};

struct Tokens {
    struct Slot *slots; /* 1 << bits of them, at most half of them taken */
    int bits;
    uint64_t seed;
    uint8_t *letters; /* the tokens in order of their numbers, each with a line feed behind it */
    int64_t letters_room;
    int64_t *starts; /* token k begins at starts[k]; at starts[count] the next one will */
    int64_t starts_room, count;
};

static int is_space(uint8_t byte) { return byte <= ' ' && (SPACES >> byte & 1); }

/* `things` with room for `wanted` of them, `size` bytes each, and more to come; null where there is no memory. */
static void *with_room(void *things, int64_t *room, int64_t wanted, size_t size) {
    if (wanted <= *room)
        return things;
    void *moved = realloc(things, 2 * (size_t)wanted * size);
    if (moved)
        *room = 2 * wanted;
    return moved;
}

static uint64_t add_letter(uint64_t hash, uint8_t letter) { return (hash ^ letter) * 0x100000001b3ULL; } /* FNV-1a */

/* Where to look first. Of a short word the first bits of its hash are all but the same; this stirs in the last ones. */
static uint64_t first_place(uint64_t hash, int bits) { return hash * 0x9e3779b97f4a7c15ULL >> (64 - bits); }

/* The slot for `hash` that is free. */
static struct Slot *free_slot(struct Slot *slots, int bits, uint64_t hash) {
    const uint64_t last = ((uint64_t)1 << bits) - 1;
    uint64_t place = first_place(hash, bits);
    while (slots[place].taken)
        place = (place + 1) & last;
    return slots + place;
}

/* Slots for one token more; 0 where there is no memory. */
static int enough_slots(struct Tokens *tokens) {
    if (2 * (tokens->count + 1) <= (int64_t)1 << tokens->bits)
        return 1;
    const int bits = tokens->bits + 1;
    struct Slot *slots = calloc((size_t)1 << bits, sizeof *slots);
    if (!slots)
        return 0;
    for (int64_t k = 0; k < tokens->count; k++) {
        uint64_t hash = tokens->seed;
        for (int64_t at = tokens->starts[k]; at < tokens->starts[k + 1] - 1; at++)
            hash = add_letter(hash, tokens->letters[at]);
        *free_slot(slots, bits, hash) = (struct Slot){(uint32_t)hash, (int32_t)k + 1};
    }
    free(tokens->slots);
    tokens->slots = slots;
    tokens->bits = bits;
    return 1;
}

/* The number of the token of `length` letters that is written behind the last one; -1 where there is no memory. */
static int32_t number(struct Tokens *tokens, int64_t length, uint64_t hash) {
    const uint64_t last = ((uint64_t)1 << tokens->bits) - 1;
    const uint8_t *token = tokens->letters + tokens->starts[tokens->count];
    uint64_t place = first_place(hash, tokens->bits);
    for (; tokens->slots[place].taken; place = (place + 1) & last) {
        const int32_t known = tokens->slots[place].taken - 1;
        const int64_t start = tokens->starts[known];
        if (tokens->slots[place].hash == (uint32_t)hash && tokens->starts[known + 1] - start - 1 == length &&
            !memcmp(tokens->letters + start, token, (size_t)length))
            return known;
    }
    int64_t *starts = with_room(tokens->starts, &tokens->starts_room, tokens->count + 2, sizeof *starts);
    if (!starts)
        return -1;
    tokens->starts = starts;
    if (tokens->count == INT32_MAX - 1 || !enough_slots(tokens))
        return -1;
    const int32_t fresh = (int32_t)tokens->count++;
    const int64_t end = tokens->starts[fresh] + length;
    tokens->letters[end] = '\n';
    tokens->starts[fresh + 1] = end + 1;
    *free_slot(tokens->slots, tokens->bits, hash) = (struct Slot){(uint32_t)hash, fresh + 1};
    return fresh;
}

/* The numbers of the tokens of each text, as offsets[k] to offsets[k + 1] of `found`, which has room for all of them; how
   many they are, or -1 where there is no memory: then some tokens are there already. */
int64_t words_read(struct Tokens *tokens, const uint8_t *at, int64_t length, int64_t max_words, int32_t *found,
                   int64_t *offsets) {
    const uint8_t *const end = at + length;
    int64_t count = 0;
    uint8_t *letters = with_room(tokens->letters, &tokens->letters_room, tokens->starts[tokens->count] + length + 1, 1);
    if (!letters)
        return -1;
    tokens->letters = letters;
    for (*offsets++ = 0;; at++) {
        uint8_t *token = letters + tokens->starts[tokens->count];
        uint64_t hash = tokens->seed;
        int64_t written = 0, words = 0;
        for (;;) {
            while (at < end && is_space(*at) && *at != '\n')
                at++;
            if (at == end || *at == '\n')
                break;
            if (written) /* the words of the last token of a long text */
                hash = add_letter(hash, token[written++] = ' ');
            for (; at < end && !is_space(*at); at++) {
                const uint8_t letter = *at - 'A' < 26u ? *at + 32 : *at;
                hash = add_letter(hash, token[written++] = letter);
            }
            if (++words < max_words) {
                if ((found[count++] = number(tokens, written, hash)) < 0)
                    return -1;
                token = letters + tokens->starts[tokens->count];
                hash = tokens->seed;
                written = 0;
            }
        }
        if (written && (found[count++] = number(tokens, written, hash)) < 0)
            return -1;
        *offsets++ = count;
        if (at == end)
            return count;
    }
}

int64_t words_count(const struct Tokens *tokens) { return tokens->count; }

/* The letters of the tokens from number `first` on; how many letters. */
int64_t words_letters(const struct Tokens *tokens, int64_t first, const uint8_t **letters) {
    *letters = tokens->letters + tokens->starts[first];
    return tokens->starts[tokens->count] - tokens->starts[first];
}

void words_free(struct Tokens *tokens) {
    if (!tokens)
        return;
    free(tokens->slots);
    free(tokens->letters);
    free(tokens->starts);
    free(tokens);
}

/* A table without a token, or null. The seed is there so that nobody writes words that all fall on one slot. */
struct Tokens *words_new(uint64_t seed) {
    struct Tokens *tokens = calloc(1, sizeof *tokens);
    if (!tokens)
        return 0;
    *tokens = (struct Tokens){.bits = FIRST_BITS, .seed = seed};
    tokens->slots = calloc((size_t)1 << FIRST_BITS, sizeof *tokens->slots);
    tokens->starts = with_room(0, &tokens->starts_room, 1, sizeof *tokens->starts);
    if (!tokens->slots || !tokens->starts) {
        words_free(tokens);
        return 0;
    }
    tokens->starts[0] = 0;
    return tokens;
}

const char *words_source(void) { return SOURCE; } /* what this was compiled from: see hatch_build.py */
