/* The vocabulary: a hash table of terms, numbered in order of appearance. */
#ifndef SUREBAYES_TEXT_VOCABULARY_H
#define SUREBAYES_TEXT_VOCABULARY_H

#include "hashing.h"
#include "python.h"

/* Maximum bytes of a document: counts and positions in a row then fit into 31 bits. */
#define MAX_DOCUMENT 0x7fffffff
/* Ids and columns are stored in 31 bits. */
#define MAX_TERMS 0x7ffffffe

/* One slot of the hash table. A token of at most 12 bytes that doesn't end in NUL *is* its key (head and tail,
 * zero-padded), so nothing else has to be read to compare it; that is 97% of English words. For longer tokens head and
 * tail are a hash, LONG is set in the id, and the bytes are compared. An empty slot is all zero. */
typedef struct {
    uint64_t head;
    uint32_t tail;
    uint32_t id;
} Entry;
#define LONG 0x80000000u

typedef struct {
    uint64_t head, hash;
    const uint8_t *text;
    uint32_t size, tail, is_long; /* is_long: 0 or LONG */
    int32_t count;                /* in the document */
} Token;

typedef struct {
    Entry *entries; /* a power of two of them, at most half full */
    size_t slots;
    int shift; /* slot of a hash = hash >> shift */
    uint8_t *bytes;
    size_t bytes_used, bytes_room;
    uint64_t *ends; /* end of each term in `bytes`; the start is the end of the one before */
    size_t terms, ends_room;
    uint32_t empty; /* 1 + the id of the empty term, which has no slot: no text gives it, but a given vocabulary may */
} Table;

typedef struct {
    PyObject_HEAD Table table;
    int readers; /* calls that read the table without the GIL */
    bool writer; /* one that changes it */
} Vocabulary;

/* masks of a token's bytes among 16, by its length: tables instead of branches, since word lengths are unpredictable */
static const uint8_t belongs[17 + 15] = {255, 255, 255, 255, 255, 255, 255, 255,
                                         255, 255, 255, 255, 255, 255, 255, 255};

static inline Token token_of(const uint8_t *text, size_t size)
{
    Token t;
    t.text = text;
    t.size = (uint32_t)size;
    t.count = 1;
    if (LIKELY(size <= 12 && text[size - 1])) {
        t.head = load8(text) & load8(belongs + 16 - size);
        t.tail = load4(text + 8) & load4(belongs + 24 - size);
        t.is_long = 0;
    } else {
        t.head = hash_bytes(text, size) | 1;
        t.tail = (uint32_t)size;
        t.is_long = LONG;
    }
    t.hash = fold(t.head ^ secret_a, (t.tail | (uint64_t)t.is_long << 32) ^ secret_b);
    return t;
}

static inline const uint8_t *term_start(const Table *table, uint32_t id, size_t *size)
{
    uint64_t start = id ? table->ends[id - 1] : 0;
    *size = (size_t)(table->ends[id] - start);
    return table->bytes + start;
}

/* The slot of a token, or the empty slot where it belongs. */
static inline Entry *table_find(const Table *table, const Token *token)
{
    for (size_t slot = (size_t)(token->hash >> table->shift);; slot = (slot + 1) & (table->slots - 1)) {
        Entry *e = &table->entries[slot];
        if (e->head == token->head && e->tail == token->tail) {
            if (LIKELY((e->id & LONG) == token->is_long)) {
                if (!token->is_long)
                    return e;
                size_t size;
                const uint8_t *start = term_start(table, e->id & ~LONG, &size);
                if (size == token->size && memcmp(start, token->text, size) == 0)
                    return e;
            }
        }
        if (!e->head && !e->tail)
            return e;
    }
}

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Add a token at the slot from table_find. */
Status table_insert(Table *table, Entry *slot, const Token *token);
Status table_init(Table *table);
void table_free(Table *table);

/* The id of a term without padding after it; a new term is added. */
Status table_add(Table *table, const uint8_t *text, size_t size, uint32_t *id);

/* Make room for a total number of terms: growing step by step would move each of them several times. */
Status table_reserve(Table *table, size_t terms);

/* Fill an empty table with n terms, concatenated in `text`; `ends` are their ascending 8-byte ends, unaligned. It stops
 * at a duplicate term: `terms` is then less than n, and `same` is its id. */
Status table_fill(Table *table, const uint8_t *text, const void *ends, size_t n, uint32_t *same);

/* Add the terms of another table; store for each of its ids the id here. */
Status table_merge(Table *table, const Table *from, uint32_t *ids);

/* Ids of the terms from `first` on, in the order of their bytes. */
Status table_order(const Table *table, size_t first, uint32_t *order);

/* -- the Python type */

/* Add a sequence of str or bytes; -1 with an exception. */
int add_terms(Table *table, PyObject *terms);

/* Check that no other thread conflicts; -1 with an exception. */
int may_read(const Vocabulary *self);
int may_write(const Vocabulary *self);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
