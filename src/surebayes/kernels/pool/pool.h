/* Shared declarations of the pool's kernel: input buffers, tables of counts, lookups. */
#ifndef SUREBAYES_POOL_H
#define SUREBAYES_POOL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "little-endian machines only; the reference in Python serves the others"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(p) __builtin_prefetch(p)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define HIDDEN __attribute__((visibility("hidden")))
#else
#define PREFETCH(p) ((void)(p))
#define ALWAYS_INLINE inline
#define HIDDEN
#endif

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define COUNTS_BITS __attribute__((target("popcnt")))
#endif

/* Compiled twice where the loader can choose: loops over many classes gain by AVX2. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&     \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

enum { CHUNK = 64, AHEAD = 32, BLOCK = 512, ENTRIES = BLOCK / 8 };

static inline uint32_t word(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* ------------------------------------------------------------------------------------------------ input */

enum { MOST_BUFFERS = 256 };

/* The buffers of a call, released together. */
typedef struct {
    Py_buffer views[MOST_BUFFERS];
    int n;
} Buffers;

HIDDEN void buffers_close(Buffers *buffers);
/* The memory of an array with items of a given size, and their number; NULL with an exception. */
HIDDEN void *buffers_add(Buffers *buffers, PyObject *from, size_t item, int writable, size_t *count, const char *name);
/* The same for an attribute of an object. */
HIDDEN void *buffers_attr(Buffers *buffers, PyObject *object, const char *name, size_t item, int writable,
                          size_t *count);
/* An integer attribute from `low` to `high`; -1 with an exception. */
HIDDEN int whole_attr(PyObject *object, const char *name, int64_t low, int64_t high, int64_t *value);

/* The distinct columns of documents: document d has columns[indptr[d]:indptr[d + 1]], ascending. `which` selects
 * documents. */
typedef struct {
    const int64_t *indptr, *which;
    const int32_t *columns;
    const uint32_t *times; /* numbers of occurrences, or NULL */
    size_t n_columns, n_documents, n_which, longest, total;
} Rows;

/* Read rows without checking the columns; -1 with an exception. */
HIDDEN int rows_open_unseen(Rows *rows, Buffers *buffers, PyObject *from, PyObject *which);
/* Read rows and check the columns against a width; -1 with an exception. */
HIDDEN int rows_open(Rows *rows, Buffers *buffers, PyObject *from, PyObject *which, uint64_t width);

static inline int64_t rows_at(const Rows *rows, size_t i)
{
    return rows->which ? rows->which[i] : (int64_t)i;
}

/* ------------------------------------------------------------------------------------------------ tables */

/* Values by column: counts of documents by class, or the parameters of a second stage.
 *
 * In memory: place has for each column 1 + its row in `values`, or 0; a row has `each` values of 4 bytes.
 * In a file: sorted entries {key, value} of 4 bytes each, for nonzero values, with the key column << bits | index of
 * the value. A separate array has the CRC-32 of every BLOCK bytes; the fences are the first key of every block.
 * Verified entries may have a guide: see `guide`.
 */
typedef struct {
    int32_t *place, *values;
    size_t width, rows;
    const uint8_t *entries, *fences, *entry_crcs, *fence_crcs; /* unaligned: read through memcpy */
    const uint8_t *guide;                                      /* or NULL */
    uint32_t guide_shift;                                      /* EXACT: the guide locates the entry of every key */
    size_t n, blocks, guides;
    uint8_t *checked; /* blocks of entries, then of fences, with a verified checksum */
    size_t each;
    int bits, in_file;
} Table;

HIDDEN int table_open(Table *table, Buffers *buffers, PyObject *from, size_t each, int writable);
/* The bits of a key for the index of the value. */
HIDDEN int key_bits(size_t each);
/* The values of n columns, `each` per column; -1 if a block of a file is damaged. */
HIDDEN int table_gather(Table *table, const int32_t *columns, size_t n, int32_t *out);
/* Whether a block of the entries of a table in a file matches its checksum. */
HIDDEN int table_block(Table *table, size_t block);
HIDDEN extern const char table_damaged[];

/* A guide with this shift has for every 32 keys a word with a bit per existing key, and the number of their first
 * entry. */
enum { EXACT = 32 };

/* The number of set bits of a word; with the processor's instruction if the caller knows that it exists. */
static ALWAYS_INLINE uint32_t bits_in(uint32_t x, const int by_instruction)
{
#ifdef COUNTS_BITS
    if (by_instruction)
        return (uint32_t)__builtin_popcount(x);
#else
    (void)by_instruction;
#endif
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return ((x + (x >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24;
}

/* The existing values of a column by an exact guide, as bits, and the number of the first entry. */
static ALWAYS_INLINE uint32_t guided_to(const Table *t, uint32_t column, size_t *entry, const int by_instruction)
{
    const uint64_t key = (uint64_t)column << t->bits, place = key >> 5;
    const uint32_t low = (uint32_t)key & 31;
    if (place >= t->guides) { /* always for more than 32 values per column */
        *entry = 0;
        return 0;
    }
    const uint32_t many = (uint32_t)(((uint64_t)1 << ((uint32_t)1 << t->bits)) - 1);
    const uint32_t bits = word(t->guide + 8 * place);
    const size_t first = word(t->guide + 8 * place + 4) +
                         (size_t)bits_in(bits & (((uint32_t)1 << low) - 1), by_instruction);
    *entry = first < t->n ? first : t->n - 1;
    return bits >> low & many;
}

/* Whether an exact guide is worth its size, for numbers of entries, of groups of 32 keys, and of bits of a key. */
HIDDEN int pays_exactly(size_t n, size_t words, int bits);
/* The guide to n entries of a table with `each` values per column, as bytes; NULL with an exception. */
HIDDEN PyObject *guide_to(const uint8_t *entries, size_t n, size_t each);

/* A stack: tables whose counts are added, each times its weight. */
typedef struct {
    Table *tables;
    int64_t *weights;
    size_t n, width;
} Stack;

/* Read a list of (table, weight); -1 with an exception. Close it in either case. */
HIDDEN int stack_open(Stack *stack, Buffers *buffers, PyObject *list, size_t each);
HIDDEN void stack_close(Stack *stack);
/* The sums of the values of n columns, `each` per column; `more` is scratch memory of that size. Return the error, or
 * NULL. */
HIDDEN const char *stack_gather(Stack *stack, size_t each, const int32_t *columns, size_t n, int32_t *counts,
                                int32_t *more);

/* Prefetch this many numbers of 4 bytes: with many classes they span several cache lines. */
static inline void fetch(const void *numbers, const size_t n)
{
    enum { LINE = 16 };
    const uint32_t *at = numbers;
    PREFETCH(at);
    if (n > LINE) {
        for (size_t i = LINE; i < n; i += LINE)
            PREFETCH(at + i);
        PREFETCH(at + n - 1);
    }
}

/* The rows of the next columns in a table in memory, -1 for none; prefetches their values. */
static inline size_t next_rows(const Table *t, const int32_t *columns, size_t left, size_t ahead, int32_t *row,
                               const size_t each)
{
    size_t n = left < CHUNK ? left : CHUNK;
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < ahead)
            PREFETCH(t->place + columns[i + AHEAD]);
        uint32_t at = (uint32_t)t->place[columns[i]] - 1u;
        row[i] = at < t->rows ? (int32_t)at : -1;
        fetch(t->values + (at < t->rows ? (size_t)at * each : 0),
              each); /* branchless: half of the columns may be new */
    }
    return n;
}

/* ------------------------------------------------------------------------------------------------ how often a term
 * occurs */

enum { LOG_FREQUENCIES = 256 };
HIDDEN extern double log_frequencies[LOG_FREQUENCIES];
HIDDEN void make_log_frequencies(void);

/* 1 + log of a number of at least 1. */
static inline double log_frequency(uint32_t n)
{
    return n < LOG_FREQUENCIES ? log_frequencies[n] : 1.0 + log((double)n);
}

/* ------------------------------------------------------------------------------------------------ the module's state
 */

enum { LOG_TABLES = 8 };

typedef struct LogTable LogTable; /* logarithms of small counts: score.c */

typedef struct {
    LogTable *log_tables[LOG_TABLES]; /* most recently used first */
} PoolState;

HIDDEN void log_tables_free(PoolState *state);

/* ------------------------------------------------------------------------------------------------ functions of the
 * module */

HIDDEN PyObject *pool_add(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_take(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_count(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_load(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_totals(PyObject *module, PyObject *from);
HIDDEN PyObject *pool_pack_entries(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_block_checksums(PyObject *module, PyObject *data);
HIDDEN PyObject *pool_guide(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_checksum(PyObject *module, PyObject *data);
HIDDEN PyObject *pool_lesson_alive(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_lesson_entries(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_merge(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_score(PyObject *module, PyObject *args, PyObject *kwargs);
HIDDEN PyObject *pool_weigh(PyObject *module, PyObject *args, PyObject *kwargs);
HIDDEN PyObject *pool_count_missing(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_separate(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_pack_views(PyObject *module, PyObject *views);
HIDDEN PyObject *pool_unpack_columns(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_hash_tokens(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_hash_listed(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_compress(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_decompress(PyObject *module, PyObject *args);
HIDDEN PyObject *pool_row_checks(PyObject *module, PyObject *args);
HIDDEN extern const char add_doc[], take_doc[], load_doc[], totals_doc[], pack_entries_doc[], block_checksums_doc[],
    guide_doc[], score_doc[], weigh_doc[], separate_doc[], pack_views_doc[], unpack_columns_doc[], hash_tokens_doc[],
    hash_listed_doc[], compress_doc[], decompress_doc[], count_missing_doc[], lesson_alive_doc[], lesson_entries_doc[],
    merge_doc[], checksum_doc[], count_doc[], row_checks_doc[];

/* Extend a CRC-32 by n bytes; the CRC-32 of n bytes. */
HIDDEN uint32_t crc32_on(uint32_t before, const uint8_t *p, size_t n);
HIDDEN void make_crc_table(void);

static inline uint32_t crc32_of(const uint8_t *p, size_t n)
{
    return crc32_on(0, p, n);
}

#endif
