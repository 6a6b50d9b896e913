/* StepTable of text.py once more; read that one first. A test binds the two.

   Texts come as UTF-8 with a line feed between them. What is not ASCII has been normalised, and has only spaces for white
   space: words.py sees to it. Of the rest, capitals and white space are dealt with here. A step is written behind the
   last one that is kept, with capitals made small; if it is new it stays there, and else the next one is written over it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BITS = 8 };
#define SPACES 0x1f0003e00ULL /* bit b is set where Python's split() takes the byte b for white space */

struct Slot {
    uint32_t hash;
    int32_t taken; /* 1 + the number of a step; 0 where there is none */
};

struct Steps {
    struct Slot *slots; /* 1 << bits of them, at most half of them taken */
    int bits;
    uint64_t seed;
    uint8_t *letters; /* the steps in order of their numbers, each with a line feed behind it */
    int64_t letters_room;
    int64_t *starts; /* step k begins at starts[k]; at starts[count] the next one will */
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

/* Slots for one step more; 0 where there is no memory. */
static int enough_slots(struct Steps *steps) {
    if (2 * (steps->count + 1) <= (int64_t)1 << steps->bits)
        return 1;
    const int bits = steps->bits + 1;
    struct Slot *slots = calloc((size_t)1 << bits, sizeof *slots);
    if (!slots)
        return 0;
    for (int64_t k = 0; k < steps->count; k++) {
        uint64_t hash = steps->seed;
        for (int64_t at = steps->starts[k]; at < steps->starts[k + 1] - 1; at++)
            hash = add_letter(hash, steps->letters[at]);
        *free_slot(slots, bits, hash) = (struct Slot){(uint32_t)hash, (int32_t)k + 1};
    }
    free(steps->slots);
    steps->slots = slots;
    steps->bits = bits;
    return 1;
}

/* The number of the step of `length` letters that is written behind the last one; -1 where there is no memory. */
static int32_t number(struct Steps *steps, int64_t length, uint64_t hash) {
    const uint64_t last = ((uint64_t)1 << steps->bits) - 1;
    const uint8_t *step = steps->letters + steps->starts[steps->count];
    uint64_t place = first_place(hash, steps->bits);
    for (; steps->slots[place].taken; place = (place + 1) & last) {
        const int32_t known = steps->slots[place].taken - 1;
        const int64_t start = steps->starts[known];
        if (steps->slots[place].hash == (uint32_t)hash && steps->starts[known + 1] - start - 1 == length &&
            !memcmp(steps->letters + start, step, (size_t)length))
            return known;
    }
    int64_t *starts = with_room(steps->starts, &steps->starts_room, steps->count + 2, sizeof *starts);
    if (!starts)
        return -1;
    steps->starts = starts;
    if (steps->count == INT32_MAX - 1 || !enough_slots(steps))
        return -1;
    const int32_t fresh = (int32_t)steps->count++;
    const int64_t end = steps->starts[fresh] + length;
    steps->letters[end] = '\n';
    steps->starts[fresh + 1] = end + 1;
    *free_slot(steps->slots, steps->bits, hash) = (struct Slot){(uint32_t)hash, fresh + 1};
    return fresh;
}

/* The numbers of the steps of each text, as offsets[k] to offsets[k + 1] of `found`, which has room for all of them; how
   many they are, or -1 where there is no memory: then some steps are there already. */
int64_t words_read(struct Steps *steps, const uint8_t *at, int64_t length, int64_t max_words, int32_t *found,
                   int64_t *offsets) {
    const uint8_t *const end = at + length;
    int64_t count = 0;
    uint8_t *letters = with_room(steps->letters, &steps->letters_room, steps->starts[steps->count] + length + 1, 1);
    if (!letters)
        return -1;
    steps->letters = letters;
    for (*offsets++ = 0;; at++) {
        uint8_t *step = letters + steps->starts[steps->count];
        uint64_t hash = steps->seed;
        int64_t written = 0, words = 0;
        for (;;) {
            while (at < end && is_space(*at) && *at != '\n')
                at++;
            if (at == end || *at == '\n')
                break;
            if (written) /* the words of the last step of a long text */
                hash = add_letter(hash, step[written++] = ' ');
            for (; at < end && !is_space(*at); at++) {
                const uint8_t letter = *at - 'A' < 26u ? *at + 32 : *at;
                hash = add_letter(hash, step[written++] = letter);
            }
            if (++words < max_words) {
                if ((found[count++] = number(steps, written, hash)) < 0)
                    return -1;
                step = letters + steps->starts[steps->count];
                hash = steps->seed;
                written = 0;
            }
        }
        if (written && (found[count++] = number(steps, written, hash)) < 0)
            return -1;
        *offsets++ = count;
        if (at == end)
            return count;
    }
}

int64_t words_count(const struct Steps *steps) { return steps->count; }

/* The letters of the steps from number `first` on; how many letters. */
int64_t words_letters(const struct Steps *steps, int64_t first, const uint8_t **letters) {
    *letters = steps->letters + steps->starts[first];
    return steps->starts[steps->count] - steps->starts[first];
}

void words_free(struct Steps *steps) {
    if (!steps)
        return;
    free(steps->slots);
    free(steps->letters);
    free(steps->starts);
    free(steps);
}

/* A table without a step, or null. The seed is there so that nobody writes words that all fall on one slot. */
struct Steps *words_new(uint64_t seed) {
    struct Steps *steps = calloc(1, sizeof *steps);
    if (!steps)
        return 0;
    *steps = (struct Steps){.bits = FIRST_BITS, .seed = seed};
    steps->slots = calloc((size_t)1 << FIRST_BITS, sizeof *steps->slots);
    steps->starts = with_room(0, &steps->starts_room, 1, sizeof *steps->starts);
    if (!steps->slots || !steps->starts) {
        words_free(steps);
        return 0;
    }
    steps->starts[0] = 0;
    return steps;
}

const char *words_source(void) { return SOURCE; } /* what this was compiled from: see hatch_build.py */
