/* The text kernel of surebayes: documents -> tokens -> counts, hashed counts or scores.
 *
 * Flat buffers in and out, no numpy, limited API (one binary for every Python from 3.11 on). The pure-Python twin with the same
 * names and signatures is _text_python.py; the tests run both on the same input and compare.
 *
 * How a document becomes a row:
 *   prepare    lower-cases the UTF-8 text into a scratch buffer and marks, one bit a byte, what is a word character (or a space).
 *              A lower-case letter always takes the place of its capital; the few capitals whose lower case is longer or shorter in
 *              UTF-8, or depends on the context (U+03A3), send the document to str.lower() instead.
 *   analyze    walks the runs of the bit mask and puts tokens: spans of the scratch buffer, never copies.
 *   put        counts a token of the document, by a small hash table that stays in the first-level cache.
 *   look_up    finds the ids of the document's distinct tokens (about half of all) in the large table of the vocabulary; the next
 *              few are prefetched, so that their cache misses overlap.
 *
 * The GIL is held only while a batch of documents is gathered. Worker code never calls Python: when it needs Python (an unknown
 * page of the Unicode table, a document for str.lower()) it returns a status, the driver does what is needed under the GIL, and the
 * document starts again. Nothing of a document is counted before it has been prepared, so starting again is safe.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(_MSC_VER)
#include <intrin.h>
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

typedef enum { OK, NO_MEMORY, TOO_MANY_TERMS, NEED_PAGE, NEED_LOWER } Status;

/* ------------------------------------------------------------------------------------------------ small helpers */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BIG_ENDIAN_HOST 1
#else
#define BIG_ENDIAN_HOST 0
#endif

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(p) __builtin_prefetch(p)
#define LIKELY(x) __builtin_expect(!!(x), 1)
static inline int lowest_bit(uint64_t x) { return __builtin_ctzll(x); }
#else
#define PREFETCH(p) ((void)(p))
#define LIKELY(x) (x)
static inline int lowest_bit(uint64_t x)
{
    unsigned long i;
    _BitScanForward64(&i, x);
    return (int)i;
}
#endif

/* Every buffer that tokens are read from has this many readable bytes after its end. */
#define PADDING 16

/* A document may have this many bytes: no count and no position in a row can then leave 31 bits. */
#define MAX_DOCUMENT 0x7fffffff
/* Ids and columns are stored in 31 bits. */
#define MAX_TERMS 0x7ffffffe

static inline uint64_t load8(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

static inline uint32_t load4(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* The first n <= 8 bytes, the rest zero. Reads 8 bytes. */
static inline uint64_t load_part(const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
#if BIG_ENDIAN_HOST
    return load8(p) & (~UINT64_C(0) << (64 - 8 * n));
#else
    return load8(p) & (~UINT64_C(0) >> (64 - 8 * n));
#endif
}

/* The first 8 bytes of a term of n bytes as a number that sorts as the bytes do. */
static inline uint64_t sort_key(const uint8_t *p, size_t n)
{
    uint64_t key = 0;
    for (size_t i = 0; i < 8; i++)
        key = key << 8 | (i < n ? p[i] : 0);
    return key;
}

static Status enlarge(void *array, size_t *capacity, size_t need, size_t item)
{
    size_t room = *capacity ? *capacity : 64;
    while (room < need) {
        if (room > SIZE_MAX / 2)
            return NO_MEMORY;
        room *= 2;
    }
    if (room > SIZE_MAX / item)
        return NO_MEMORY;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, room * item);
    if (!grown)
        return NO_MEMORY;
    memcpy(array, &grown, sizeof grown);
    *capacity = room;
    return OK;
}

/* Make room for `need` items; capacity doubles. The array is kept as it was when there is no memory. */
static inline Status reserve(void *array, size_t *capacity, size_t need, size_t item)
{
    return LIKELY(need <= *capacity) ? OK : enlarge(array, capacity, need, item);
}

/* ------------------------------------------------------------------------------------------------ hashing */

/* Secrets of this process, so that nobody can write a mail whose words all fall into one slot. Results don't depend on them. */
static uint64_t secret_a = UINT64_C(0x9E3779B97F4A7C15), secret_b = UINT64_C(0xD6E8FEB86659FD93);

/* Both halves of the 128-bit product, folded. */
static inline uint64_t fold(uint64_t x, uint64_t y)
{
#if defined(__SIZEOF_INT128__)
    unsigned __int128 product = (unsigned __int128)x * y;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#elif defined(_MSC_VER) && defined(_M_X64)
    uint64_t high, low = _umul128(x, y, &high);
    return low ^ high;
#else
    uint64_t a = x >> 32, b = (uint32_t)x, c = y >> 32, d = (uint32_t)y;
    uint64_t bd = b * d, ad = a * d, bc = b * c;
    uint64_t middle = (bd >> 32) + (uint32_t)ad + (uint32_t)bc;
    uint64_t high = a * c + (ad >> 32) + (bc >> 32) + (middle >> 32);
    return (middle << 32 | (uint32_t)bd) ^ high;
#endif
}

static uint64_t hash_bytes(const uint8_t *p, size_t n)
{
    uint64_t h = secret_a ^ n;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        h = fold(h ^ load8(p + i), secret_b);
    if (i < n)
        h = fold(h ^ load_part(p + i, n - i), secret_b);
    return fold(h ^ secret_b, secret_a);
}

/* MurmurHash3, 32 bits, x86, seed 0: what scikit-learn hashes tokens with. The bytes are little-endian words. */
static inline uint32_t rotate(uint32_t x, int by) { return x << by | x >> (32 - by); }

static inline uint32_t little4(const uint8_t *p)
{
#if BIG_ENDIAN_HOST
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
#else
    return load4(p);
#endif
}

static inline uint32_t murmur3(const uint8_t *p, size_t n)
{
    uint32_t h = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        h = rotate(h ^ rotate(little4(p + i) * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
    if (n & 3) { /* reads up to 3 bytes after the end */
        uint32_t tail = little4(p + i) & (0xffffffffu >> (32 - 8 * (n & 3)));
        h ^= rotate(tail * 0xcc9e2d51u, 15) * 0x1b873593u;
    }
    h ^= (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/* scikit-learn's column of a hash: its absolute value modulo the width. For -2^31, whose absolute value an int32 can't hold, it takes
 * 2^31 - width instead, which is the same modulo the width. */
static inline uint32_t column_of(uint32_t h, uint32_t width)
{
    uint32_t absolute = h >> 31 ? 0u - h : h;
    return width & (width - 1) ? absolute % width : absolute & (width - 1);
}

/* Compiled twice where the loader can choose: with AVX2 the loops below take eight n-grams at a time. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* The columns of n-grams of 4 to 8 bytes: words[i] are the four bytes from i on, little-endian. `mask` is the width less 1 if that is a
 * power of two, otherwise all ones. */
static inline void hash_grams_of(const uint32_t *restrict words, size_t n, uint32_t mask, uint32_t *restrict out, const uint32_t size)
{
    const uint32_t tail = size > 4 && size < 8 ? 0xffffffffu >> (32 - 8 * (size & 3)) : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t h = rotate(rotate(words[i] * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
        if (size == 8)
            h = rotate(h ^ rotate(words[i + 4] * 0xcc9e2d51u, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
        else if (size > 4)
            h ^= rotate((words[i + 4] & tail) * 0xcc9e2d51u, 15) * 0x1b873593u;
        h ^= size;
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        h ^= h >> 16;
        uint32_t sign = 0u - (h >> 31);
        out[i] = ((h ^ sign) - sign) & mask;
    }
}

WIDE static void hash_short_grams(const uint32_t *words, size_t n, size_t size, uint32_t mask, uint32_t *out)
{
    switch (size) { /* constants, so that the compiler makes a loop of each */
    case 4: hash_grams_of(words, n, mask, out, 4); break;
    case 5: hash_grams_of(words, n, mask, out, 5); break;
    case 6: hash_grams_of(words, n, mask, out, 6); break;
    case 7: hash_grams_of(words, n, mask, out, 7); break;
    default: hash_grams_of(words, n, mask, out, 8);
    }
}

/* ------------------------------------------------------------------------------------------------ Unicode */

/* What the running Python says about 256 code points; filled when a document first needs it, so the kernel always agrees with
 * Python's re and str.lower() whatever version of Unicode they have, and start-up costs nothing. */
enum { WORD = 1, SPACE = 2, PYTHON_LOWER = 4 };
enum { PAGES = 0x110000 / 256 };

typedef struct {
    uint8_t flags[256];
    uint8_t lower[256][4]; /* the lower-case letter in UTF-8, of the same length as the letter */
} Page;

static inline size_t utf8_length(uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

static inline uint32_t utf8_decode(const uint8_t *p, size_t length)
{
    switch (length) {
    case 2: return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    case 3: return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    default:
        return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    }
}

static size_t utf8_encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

/* ------------------------------------------------------------------------------------------------ module state */

typedef struct Workspace Workspace;

typedef struct {
    PyTypeObject *block_type, *analyzer_type, *vocabulary_type, *scorer_type;
    PyObject *isascii, *isalnum, *isspace, *lower;
    Page *pages[PAGES];
    Workspace *idle; /* workspaces not in use, kept for the next call */
} State;

static State *state_of_type(PyObject *self) { return PyType_GetModuleState(Py_TYPE(self)); }

/* str.method() as 0 or 1; -1 with an exception. */
static int ask(PyObject *text, PyObject *method)
{
    PyObject *answer = PyObject_CallMethodObjArgs(text, method, NULL);
    if (!answer)
        return -1;
    int yes = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return yes;
}

/* Fill in one character's flags and lower case from Python. */
static int learn_character(State *state, Page *page, PyObject *all, int i, uint32_t c, bool word, bool caseless)
{
    PyObject *one = PyUnicode_Substring(all, i, i + 1);
    if (!one)
        return -1;
    int is_word = word ? 1 : c == '_' ? 1 : ask(one, state->isalnum);
    int is_space = is_word ? 0 : ask(one, state->isspace);
    page->flags[i] = (uint8_t)((is_word > 0 ? WORD : 0) | (is_space > 0 ? SPACE : 0));
    size_t length = utf8_encode(c, page->lower[i]);
    int failed = is_word < 0 || is_space < 0;
    if (!failed && !caseless) {
        PyObject *small = PyObject_CallMethodObjArgs(one, state->lower, NULL);
        Py_ssize_t n = small ? PyUnicode_GetLength(small) : -1;
        uint8_t bytes[4];
        /* U+03A3 becomes one of two letters, as the word goes on after it or not */
        if (n == 1 && c != 0x3A3 && utf8_encode(PyUnicode_ReadChar(small, 0), bytes) == length)
            memcpy(page->lower[i], bytes, length);
        else
            page->flags[i] |= PYTHON_LOWER;
        Py_XDECREF(small);
        failed = n < 0;
    }
    Py_DECREF(one);
    return failed ? -1 : 0;
}

/* Ask Python about a page of 256 code points. With the GIL. */
static Page *learn_page(State *state, uint32_t number)
{
    if (state->pages[number])
        return state->pages[number];
    uint32_t points[256];
    for (uint32_t i = 0; i < 256; i++)
        points[i] = number * 256 + i;
    int order = BIG_ENDIAN_HOST ? 1 : -1;
    PyObject *all = PyUnicode_DecodeUTF32((const char *)points, sizeof points, "surrogatepass", &order);
    if (!all)
        return NULL;
    PyObject *small = PyObject_CallMethodObjArgs(all, state->lower, NULL);
    int word = ask(all, state->isalnum); /* true for whole pages of Chinese and Korean: no need to ask 256 times */
    int caseless = small ? PyUnicode_Compare(all, small) == 0 && !PyErr_Occurred() : 0;
    Page *page = calloc(1, sizeof *page);
    if (!page)
        PyErr_NoMemory();
    int failed = !small || word < 0 || !page;
    for (int i = 0; !failed && i < 256; i++)
        failed = learn_character(state, page, all, i, points[i], word, caseless) < 0;
    Py_XDECREF(small);
    Py_DECREF(all);
    if (failed) {
        free(page);
        return NULL;
    }
    state->pages[number] = page;
    return page;
}

/* ------------------------------------------------------------------------------------------------ blocks */

/* A piece of memory handed over to Python through the buffer protocol, without a copy. */
typedef struct {
    PyObject_HEAD
    void *data;
    size_t size;
} Block;

/* Takes over `data`, also on failure. */
static PyObject *block_of(State *state, void *data, size_t size)
{
    Block *block = PyObject_New(Block, state->block_type);
    if (!block) {
        free(data);
        return NULL;
    }
    block->data = data;
    block->size = size;
    return (PyObject *)block;
}

static void block_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((Block *)self)->data);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int block_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    static char nothing;
    Block *block = (Block *)self;
    return PyBuffer_FillInfo(view, self, block->data ? block->data : &nothing, (Py_ssize_t)block->size, 0, flags);
}

static Py_ssize_t block_length(PyObject *self) { return (Py_ssize_t)((Block *)self)->size; }

PyDoc_STRVAR(block_doc, "Memory that the kernel filled; read it through the buffer protocol.");

static PyType_Slot block_slots[] = {{Py_tp_doc, (void *)block_doc},
                                    {Py_tp_dealloc, block_dealloc},
                                    {Py_bf_getbuffer, block_getbuffer},
                                    {Py_sq_length, block_length},
                                    {0, NULL}};
static PyType_Spec block_spec = {.name = "surebayes.kernels._text.Block",
                                 .basicsize = sizeof(Block),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = block_slots};

/* ------------------------------------------------------------------------------------------------ vocabulary */

/* One slot of the hash table. A token of at most 12 bytes that doesn't end in NUL *is* its key (head and tail, zero-padded), so
 * nothing else has to be read to compare it; that is 97% of English words. For longer tokens head and tail are a hash, LONG is set in
 * the id, and the bytes are compared. An empty slot is all zero. */
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
    PyObject_HEAD
    Table table;
    int readers; /* calls that read the table without the GIL */
    bool writer; /* one that changes it */
} Vocabulary;

/* which bytes of 16 belong to a token of so many: tables instead of branches, because word lengths can't be predicted */
static const uint8_t belongs[17 + 15] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

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

/* Tables of some MB live in huge pages where there are any: a look-up then rarely misses the TLB (a tenth of the time). */
static Entry *zeroed_entries(size_t slots)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    size_t bytes = slots * sizeof(Entry), huge = (size_t)2 << 20;
    if (bytes >= 2 * huge) {
        Entry *entries = aligned_alloc(huge, bytes); /* a power of two, so a multiple */
        if (entries) {
            (void)madvise(entries, bytes, MADV_HUGEPAGE);
            memset(entries, 0, bytes);
        }
        return entries;
    }
#endif
    return calloc(slots, sizeof(Entry));
}

static Status table_resize(Table *table, size_t slots)
{
    if (slots > SIZE_MAX / sizeof(Entry))
        return NO_MEMORY;
    Entry *entries = zeroed_entries(slots);
    if (!entries)
        return NO_MEMORY;
    int shift = 64;
    for (size_t s = slots; s > 1; s >>= 1)
        shift--;
    for (size_t i = 0; i < table->slots; i++) {
        Entry e = table->entries[i];
        if (!e.head && !e.tail)
            continue;
        uint64_t hash = fold(e.head ^ secret_a, (e.tail | (uint64_t)(e.id & LONG) << 32) ^ secret_b);
        size_t slot = (size_t)(hash >> shift);
        while (entries[slot].head || entries[slot].tail)
            slot = (slot + 1) & (slots - 1);
        entries[slot] = e;
    }
    free(table->entries);
    table->entries = entries;
    table->slots = slots;
    table->shift = shift;
    return OK;
}

/* Add a token at the slot that table_find gave. */
static Status table_insert(Table *table, Entry *slot, const Token *token)
{
    if (table->terms >= MAX_TERMS)
        return TOO_MANY_TERMS;
    if (token->size > SIZE_MAX - PADDING - table->bytes_used ||
        reserve(&table->bytes, &table->bytes_room, table->bytes_used + token->size + PADDING, 1) != OK ||
        reserve(&table->ends, &table->ends_room, table->terms + 1, sizeof *table->ends) != OK)
        return NO_MEMORY;
    if ((table->terms + 1) * 2 > table->slots) {
        Status status = table_resize(table, table->slots * 2);
        if (status != OK)
            return status;
        slot = table_find(table, token);
    }
    memcpy(table->bytes + table->bytes_used, token->text, token->size);
    table->bytes_used += token->size;
    *slot = (Entry){token->head, token->tail, (uint32_t)table->terms | token->is_long};
    table->ends[table->terms++] = table->bytes_used;
    return OK;
}

static Status table_init(Table *table)
{
    Status status = reserve(&table->bytes, &table->bytes_room, PADDING, 1);
    return status == OK ? table_resize(table, 1024) : status;
}

static void table_free(Table *table)
{
    free(table->entries);
    free(table->bytes);
    free(table->ends);
}

/* The id of a term that may lie anywhere (no padding after it), adding it if it is new. */
static Status table_add(Table *table, const uint8_t *text, size_t size, uint32_t *id)
{
    uint8_t local[64 + PADDING] = {0}, *copy = local;
    if (size > MAX_DOCUMENT || (size > 64 && !(copy = calloc(1, size + PADDING))))
        return NO_MEMORY;
    if (size)
        memcpy(copy, text, size);
    Status status = OK;
    if (size == 0 && table->empty)
        *id = table->empty - 1;
    else if (size == 0) {
        status = table->terms >= MAX_TERMS ? TOO_MANY_TERMS
                                           : reserve(&table->ends, &table->ends_room, table->terms + 1, sizeof *table->ends);
        if (status == OK) {
            *id = (uint32_t)table->terms;
            table->ends[table->terms++] = table->bytes_used;
            table->empty = (uint32_t)table->terms;
        }
    } else {
        Token token = token_of(copy, size);
        Entry *slot = table_find(table, &token);
        if (slot->head || slot->tail)
            *id = slot->id & ~LONG;
        else {
            *id = (uint32_t)table->terms;
            status = table_insert(table, slot, &token);
        }
    }
    if (copy != local)
        free(copy);
    return status;
}

/* -- sorting the terms: radix sort on their first 8 bytes, then merge sort within equal ones (UTF-8 sorts as code points do) */

typedef struct {
    uint64_t key;
    uint32_t id;
} SortItem;

static bool term_less(const Table *table, uint32_t a, uint32_t b)
{
    size_t m, n;
    const uint8_t *x = term_start(table, a, &m), *y = term_start(table, b, &n);
    int order = memcmp(x, y, m < n ? m : n);
    return order ? order < 0 : m < n;
}

static void radix_sort(SortItem *items, SortItem *spare, size_t n)
{
    for (int pass = 0; pass < 8; pass++) {
        size_t count[256] = {0}, at = 0;
        for (size_t i = 0; i < n; i++)
            count[items[i].key >> 8 * pass & 255]++;
        if (count[items[0].key >> 8 * pass & 255] == n)
            continue;
        for (int digit = 0; digit < 256; digit++) {
            size_t here = count[digit];
            count[digit] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++)
            spare[count[items[i].key >> 8 * pass & 255]++] = items[i];
        memcpy(items, spare, n * sizeof *items);
    }
}

static void merge_sort(const Table *table, SortItem *items, SortItem *spare, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t middle = n - low < width ? n : low + width, high = n - low < 2 * width ? n : low + 2 * width;
            for (size_t i = low, j = middle, k = low; k < high; k++)
                spare[k] = i < middle && (j >= high || !term_less(table, items[j].id, items[i].id)) ? items[i++] : items[j++];
        }
        memcpy(items, spare, n * sizeof *items);
    }
}

/* Ids of the terms from `first` on, in the order of their bytes. */
static Status table_order(const Table *table, size_t first, uint32_t *order)
{
    size_t n = table->terms - first;
    if (n == 0)
        return OK;
    SortItem *items = n <= SIZE_MAX / (2 * sizeof *items) ? malloc(2 * n * sizeof *items) : NULL;
    if (!items)
        return NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        size_t size;
        const uint8_t *term = term_start(table, (uint32_t)(first + i), &size);
        items[i] = (SortItem){sort_key(term, size), (uint32_t)(first + i)};
    }
    radix_sort(items, items + n, n);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && items[j].key == items[i].key; j++) {}
        if (j - i > 1)
            merge_sort(table, items + i, items + n + i, j - i);
    }
    for (size_t i = 0; i < n; i++)
        order[i] = items[i].id;
    free(items);
    return OK;
}

/* ------------------------------------------------------------------------------------------------ analyzer */

typedef enum { WORDS, CHARS, CHARS_IN_WORDS, BYTES } Kind;

typedef struct {
    PyObject_HEAD
    Kind kind;
    size_t low, high;  /* n-gram sizes */
    size_t shortest;   /* a word has at least so many characters: 1 or 2 */
    size_t max_bytes;  /* of a document, for BYTES */
    bool lowercase;
    bool has_stop_words;
    Table stop_words;
} Analyzer;

/* ------------------------------------------------------------------------------------------------ workspace */

/* Slots for the tokens of an ordinary document: with 16 KB they stay in the cache. Kept three quarters empty (a tenth faster than
 * half empty: fewer probes to mispredict). */
enum { FEW = 2048, AHEAD = 12 };

typedef struct {
    PyObject *owner; /* keeps the text alive */
    const uint8_t *text;
    size_t size;
    bool lower; /* still to be lower-cased by the kernel */
} Document;

typedef struct {
    uint32_t start, end;
} Span;

/* Where a token of the document is in ws->tokens: `place` is one more than the index, 0 in an empty slot; `tag` the low half of its
 * hash. */
typedef struct {
    uint32_t tag, place;
} Seen;

typedef struct {
    double rank;
    uint32_t column;
} Candidate;

/* The scratch memory of one call: reused by later calls, so that judging one document allocates almost nothing. */
struct Workspace {
    Workspace *next;
    State *state;
    /* what this call does */
    const Analyzer *analyzer;
    Table *table; /* NULL: hash */
    bool grow, alternate_sign, presence; /* presence: a row is the document's distinct columns, ascending */
    uint32_t columns; /* of the hash */
    /* the document */
    uint8_t *text, *joined;
    uint64_t *mask;
    uint32_t *edges, *starts;
    Span *spans;
    size_t text_room, joined_room, mask_room, edges_room, spans_room, starts_room;
    bool ascii; /* the document has nothing else */
    uint32_t page_needed;
    const Page *pages[PAGES]; /* the workspace's own view, filled under the GIL: no data races */
    /* the distinct tokens of the document, and a hash table of them */
    Token *tokens;
    Seen *seen;
    size_t distinct, tokens_room, seen_slots, seen_room;
    int seen_shift;
    /* finished rows, then the current one */
    uint32_t *ids;
    int32_t *counts;
    size_t used, row, ids_room, counts_room;
    /* where a column is in the current row, for hashes only: two tokens may share a column */
    uint32_t *places;
    size_t places_room;
    /* the columns of the document as they come, for presence, and room to sort them in */
    uint32_t *found, *spare;
    size_t found_used, found_room, spare_room;
    /* the best terms of a row, when only some are scored */
    Candidate *heap;
    size_t heap_room;
};

static void workspace_free(Workspace *ws)
{
    free(ws->text), free(ws->joined), free(ws->mask), free(ws->edges), free(ws->spans), free(ws->starts);
    free(ws->tokens), free(ws->seen), free(ws->ids), free(ws->counts), free(ws->places), free(ws->heap);
    free(ws->found), free(ws->spare);
    free(ws);
}

static Workspace *workspace_take(State *state)
{
    Workspace *ws = state->idle;
    if (ws)
        state->idle = ws->next;
    else if (!(ws = calloc(1, sizeof *ws))) {
        PyErr_NoMemory();
        return NULL;
    }
    ws->state = state;
    ws->used = ws->row = 0;
    ws->presence = false;
    return ws;
}

static void workspace_give_back(Workspace *ws)
{
    /* a workspace that met a huge document is not kept */
    if (ws->text_room > (1u << 22) || ws->ids_room > (1u << 20) || ws->tokens_room > (1u << 18)) {
        workspace_free(ws);
        return;
    }
    ws->next = ws->state->idle;
    ws->state->idle = ws;
}

/* -- counting the tokens of a document */

static inline bool same_token(const Token *a, const Token *b)
{
    return a->head == b->head && a->tail == b->tail && a->is_long == b->is_long &&
           (!a->is_long || (a->size == b->size && memcmp(a->text, b->text, a->size) == 0));
}

static void seen_clear(Workspace *ws, size_t slots)
{
    memset(ws->seen, 0, slots * sizeof *ws->seen);
    ws->seen_slots = slots;
    ws->seen_shift = 64;
    for (size_t s = slots; s > 1; s >>= 1)
        ws->seen_shift--;
}

/* Begin a document: the table is small again, so that it stays in the cache. */
static Status document_begin(Workspace *ws)
{
    if (reserve(&ws->seen, &ws->seen_room, FEW, sizeof *ws->seen) != OK ||
        reserve(&ws->tokens, &ws->tokens_room, FEW / 4 + 1, sizeof *ws->tokens) != OK)
        return NO_MEMORY;
    seen_clear(ws, FEW);
    ws->distinct = 0;
    ws->row = ws->used;
    return OK;
}

/* The document has more distinct tokens than the tables were made for. */
static Status seen_grow(Workspace *ws)
{
    size_t slots = ws->seen_slots * 2;
    if (reserve(&ws->seen, &ws->seen_room, slots, sizeof *ws->seen) != OK ||
        reserve(&ws->tokens, &ws->tokens_room, slots / 4 + 1, sizeof *ws->tokens) != OK)
        return NO_MEMORY;
    seen_clear(ws, slots);
    for (size_t i = 0; i < ws->distinct; i++) {
        size_t slot = (size_t)(ws->tokens[i].hash >> ws->seen_shift);
        while (ws->seen[slot].place)
            slot = (slot + 1) & (slots - 1);
        ws->seen[slot] = (Seen){(uint32_t)ws->tokens[i].hash, (uint32_t)i + 1};
    }
    return OK;
}

/* Count one token of at least one byte, with PADDING readable bytes after it. */
static inline Status put(Workspace *ws, const uint8_t *text, size_t size)
{
    Token token = token_of(text, size);
    for (size_t slot = (size_t)(token.hash >> ws->seen_shift);; slot = (slot + 1) & (ws->seen_slots - 1)) {
        Seen *seen = &ws->seen[slot];
        if (!seen->place) {
            *seen = (Seen){(uint32_t)token.hash, (uint32_t)ws->distinct + 1};
            ws->tokens[ws->distinct++] = token;
            return ws->distinct * 4 > ws->seen_slots ? seen_grow(ws) : OK;
        }
        if (seen->tag == (uint32_t)token.hash && LIKELY(same_token(&ws->tokens[seen->place - 1], &token))) {
            ws->tokens[seen->place - 1].count++;
            return OK;
        }
    }
}

/* Room for the row of the document (and one more: never a null pointer). */
static Status row_room(Workspace *ws)
{
    size_t need = ws->used + ws->distinct + 1;
    Status status = reserve(&ws->ids, &ws->ids_room, need, sizeof *ws->ids);
    return status == OK ? reserve(&ws->counts, &ws->counts_room, need, sizeof *ws->counts) : status;
}

/* The row of the document: ids of its tokens in the vocabulary, which learns unknown ones if it may. */
static Status look_up(Workspace *ws)
{
    Table *table = ws->table;
    if (row_room(ws) != OK)
        return NO_MEMORY;
    for (size_t i = 0; i < ws->distinct; i++) {
        if (i + AHEAD < ws->distinct)
            PREFETCH(&table->entries[ws->tokens[i + AHEAD].hash >> table->shift]);
        const Token *token = &ws->tokens[i];
        Entry *e = table_find(table, token);
        uint32_t id = e->id & ~LONG;
        if (!e->head && !e->tail) {
            if (!ws->grow)
                continue;
            id = (uint32_t)table->terms;
            Status status = table_insert(table, e, token);
            if (status != OK)
                return status;
        }
        ws->ids[ws->used] = id;
        ws->counts[ws->used++] = token->count;
    }
    return OK;
}

/* The row of the document: the columns that its tokens are hashed to. */
static Status hash_columns(Workspace *ws)
{
    size_t slots = ws->seen_slots;
    if (row_room(ws) != OK || reserve(&ws->places, &ws->places_room, slots, sizeof *ws->places) != OK)
        return NO_MEMORY;
    memset(ws->places, 0, slots * sizeof *ws->places);
    for (size_t i = 0; i < ws->distinct; i++) {
        const Token *token = &ws->tokens[i];
        uint32_t h = murmur3(token->text, token->size), column = column_of(h, ws->columns);
        int32_t value = ws->alternate_sign && h >> 31 ? -token->count : token->count;
        size_t slot = (size_t)(column * UINT64_C(0x9E3779B97F4A7C15) >> ws->seen_shift);
        while (ws->places[slot] && ws->ids[ws->row + ws->places[slot] - 1] != column)
            slot = (slot + 1) & (slots - 1);
        if (ws->places[slot])
            ws->counts[ws->row + ws->places[slot] - 1] += value;
        else {
            ws->places[slot] = (uint32_t)(ws->used - ws->row) + 1;
            ws->ids[ws->used] = column;
            ws->counts[ws->used++] = value;
        }
    }
    return OK;
}

/* -- prepare: lower case and class mask */

/* 64 bytes: copy them to `out`, ASCII capitals lower-cased if asked; one bit a byte says whether an ASCII byte is of the class. */
static inline uint64_t classify(const uint8_t *in, uint8_t *out, bool lower, int class, uint64_t *high)
{
#if defined(__SSE2__)
    uint64_t is = 0, not_ascii = 0;
#define BETWEEN(v, first, last) _mm_and_si128(_mm_cmpgt_epi8(v, _mm_set1_epi8((first) - 1)), _mm_cmplt_epi8(v, _mm_set1_epi8((last) + 1)))
    for (int i = 0; i < 64; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(in + i)), member;
        __m128i small = _mm_or_si128(v, _mm_and_si128(BETWEEN(v, 'A', 'Z'), _mm_set1_epi8(0x20)));
        if (class == WORD)
            member = _mm_or_si128(_mm_or_si128(BETWEEN(small, 'a', 'z'), BETWEEN(v, '0', '9')), _mm_cmpeq_epi8(v, _mm_set1_epi8('_')));
        else
            member = _mm_or_si128(_mm_or_si128(BETWEEN(v, 9, 13), BETWEEN(v, 28, 31)), _mm_cmpeq_epi8(v, _mm_set1_epi8(' ')));
        _mm_storeu_si128((__m128i *)(void *)(out + i), lower ? small : v);
        is |= (uint64_t)(uint32_t)_mm_movemask_epi8(member) << i;
        not_ascii |= (uint64_t)(uint32_t)_mm_movemask_epi8(v) << i;
    }
#undef BETWEEN
    *high |= not_ascii;
    return is;
#else
    uint8_t member[64], above = 0; /* loops that compilers turn into vector code */
    for (int i = 0; i < 64; i++) {
        uint8_t c = in[i], small = (uint8_t)(c | ((uint8_t)(c - 'A') < 26) << 5);
        out[i] = lower ? small : c;
        above |= c;
        if (class == WORD)
            member[i] = ((uint8_t)(small - 'a') < 26) | ((uint8_t)(c - '0') < 10) | (c == '_');
        else
            member[i] = ((uint8_t)(c - 9) < 5) | ((uint8_t)(c - 28) < 4) | (c == ' ');
    }
    uint64_t is = 0;
    for (int i = 0; i < 64; i++)
        is |= (uint64_t)member[i] << i;
    *high |= above >> 7;
    return is;
#endif
}

static inline void mark(uint64_t *mask, size_t at, size_t length)
{
    uint64_t bits = (UINT64_C(1) << length) - 1;
    mask[at / 64] |= bits << (at & 63);
    if ((at & 63) + length > 64)
        mask[at / 64 + 1] |= bits >> (64 - (at & 63));
}

/* The characters above ASCII, one by one, by the Unicode table. */
static Status prepare_high(Workspace *ws, const Document *document, int class)
{
    const uint8_t *in = document->text;
    size_t n = document->size;
    for (size_t i = 0; i < n;) {
        if (in[i] < 0x80) {
            i++;
            while (i + 8 <= n && !(load8(in + i) & UINT64_C(0x8080808080808080)))
                i += 8;
            continue;
        }
        size_t length = utf8_length(in[i]);
        if (length == 1 || length > n - i) { /* not UTF-8: no text from Python looks like this */
            i++;
            continue;
        }
        uint32_t c = utf8_decode(in + i, length);
        const Page *page = c < 0x110000 ? ws->pages[c / 256] : NULL;
        if (!page) {
            if (c >= 0x110000) {
                i++;
                continue;
            }
            ws->page_needed = c / 256;
            return NEED_PAGE;
        }
        uint8_t flags = page->flags[c & 255];
        if (document->lower) {
            if (flags & PYTHON_LOWER)
                return NEED_LOWER;
            const uint8_t *small = page->lower[c & 255];
            uint8_t *out = ws->text + i;
            out[0] = small[0], out[1] = small[1];
            if (length > 2)
                out[2] = small[2];
            if (length > 3)
                out[3] = small[3];
        }
        if (flags & class)
            mark(ws->mask, i, length);
        i += length;
    }
    return OK;
}

/* Fill ws->text (lower-cased) and ws->mask (a zero bit follows the last byte) for a document. */
static Status prepare(Workspace *ws, const Document *document, int class)
{
    size_t n = document->size, words = n / 64 + 1;
    if (reserve(&ws->text, &ws->text_room, words * 64 + PADDING, 1) != OK ||
        reserve(&ws->mask, &ws->mask_room, words + 1, sizeof *ws->mask) != OK)
        return NO_MEMORY;
    uint64_t high = 0;
    size_t w = 0;
    bool lower = document->lower;
    /* constant arguments, so that the compiler makes a loop of each */
    if (class == WORD && lower)
        for (; w < n / 64; w++)
            ws->mask[w] = classify(document->text + w * 64, ws->text + w * 64, true, WORD, &high);
    else
        for (; w < n / 64; w++)
            ws->mask[w] = classify(document->text + w * 64, ws->text + w * 64, lower, class, &high);
    uint8_t rest[64] = {0}; /* NUL is neither a word character nor a space */
    if (n & 63)
        memcpy(rest, document->text + w * 64, n & 63);
    ws->mask[w] = classify(rest, ws->text + w * 64, lower, class, &high);
    ws->mask[words] = 0;
    memset(ws->text + words * 64, 0, PADDING);
    ws->ascii = !high;
    return high ? prepare_high(ws, document, class) : OK;
}

/* -- analyze: the tokens of a prepared document */

static inline bool is_one_character(const uint8_t *text, size_t size) { return size <= 4 && utf8_length(text[0]) == size; }

/* Where the runs of set (or, if `inverted`, of clear) bits of ws->mask start and end, as pairs into ws->edges. `skip_bytes` leaves
 * out runs of one byte. All places are found before any token is looked at: a loop that does both mispredicts at every word. */
static Status find_runs(Workspace *ws, size_t n, bool inverted, bool skip_bytes, size_t *count)
{
    if (reserve(&ws->edges, &ws->edges_room, n + 2, sizeof *ws->edges) != OK)
        return NO_MEMORY;
    size_t words = n / 64 + 1, edges = 0;
    uint64_t flip = inverted ? ~UINT64_C(0) : 0, last = 0, last_kept = 0;
    for (size_t w = 0; w < words; w++) {
        uint64_t m = ws->mask[w] ^ flip, kept = m;
        if (inverted && w + 1 == words)
            kept &= (UINT64_C(1) << (n & 63)) - 1; /* nothing after the end */
        if (skip_bytes)
            kept &= (m << 1 | last) | (m >> 1 | ws->mask[w + 1] << 63); /* with a neighbour */
        for (uint64_t left = kept ^ (kept << 1 | last_kept); left; left &= left - 1)
            ws->edges[edges++] = (uint32_t)(w * 64) + (uint32_t)lowest_bit(left);
        last = m >> 63;
        last_kept = kept >> 63;
    }
    if (edges & 1) /* inverted, and the last run goes to the end of a word of the mask */
        ws->edges[edges++] = (uint32_t)n;
    *count = edges / 2;
    return OK;
}

static bool is_stop_word(const Analyzer *analyzer, const uint8_t *text, size_t size)
{
    Token token = token_of(text, size);
    const Entry *e = table_find(&analyzer->stop_words, &token);
    return e->head || e->tail;
}

/* Words without stop words, with single spaces between them in ws->joined: then every n-gram is one span. */
static Status join_words(Workspace *ws, size_t n, size_t *count)
{
    if (reserve(&ws->joined, &ws->joined_room, n + 1 + PADDING, 1) != OK)
        return NO_MEMORY;
    size_t at = 0, runs;
    if (find_runs(ws, n, false, ws->analyzer->shortest > 1, &runs) != OK ||
        reserve(&ws->spans, &ws->spans_room, runs, sizeof *ws->spans) != OK)
        return NO_MEMORY;
    for (size_t i = 0; i < runs; i++) {
        const uint8_t *word = ws->text + ws->edges[2 * i];
        size_t size = ws->edges[2 * i + 1] - ws->edges[2 * i];
        if ((ws->analyzer->shortest > 1 && is_one_character(word, size)) ||
            (ws->analyzer->has_stop_words && is_stop_word(ws->analyzer, word, size)))
            continue;
        memcpy(ws->joined + at, word, size);
        ws->spans[(*count)++] = (Span){(uint32_t)at, (uint32_t)(at + size)};
        at += size;
        ws->joined[at++] = ' ';
    }
    memset(ws->joined + at, 0, PADDING);
    return OK;
}

static Status analyze_words(Workspace *ws, size_t n)
{
    const Analyzer *analyzer = ws->analyzer;
    size_t count = 0;
    Status status;
    if (analyzer->high == 1 && !analyzer->has_stop_words) {
        status = find_runs(ws, n, false, analyzer->shortest > 1, &count);
        bool check = analyzer->shortest > 1 && !ws->ascii;
        for (size_t i = 0; status == OK && i < count; i++) {
            const uint8_t *word = ws->text + ws->edges[2 * i];
            size_t size = ws->edges[2 * i + 1] - ws->edges[2 * i];
            if (!check || !is_one_character(word, size))
                status = put(ws, word, size);
        }
        return status;
    }
    status = join_words(ws, n, &count);
    for (size_t size = analyzer->low; size <= analyzer->high && size <= count; size++)
        for (size_t i = 0; status == OK && i + size <= count; i++) {
            uint32_t start = ws->spans[i].start;
            status = put(ws, ws->joined + start, ws->spans[i + size - 1].end - start);
        }
    return status;
}

/* Where each character of ws->joined[start..end) begins, and the end after the last. */
static Status find_characters(Workspace *ws, size_t start, size_t end, size_t *count)
{
    if (reserve(&ws->starts, &ws->starts_room, end - start + 1, sizeof *ws->starts) != OK)
        return NO_MEMORY;
    size_t characters = 0;
    for (size_t i = start; i < end; i++) {
        ws->starts[characters] = (uint32_t)i;
        characters += (ws->joined[i] & 0xC0) != 0x80;
    }
    /* a continuation byte leaves its offset in the next place, which the next character or the end overwrites */
    ws->starts[characters] = (uint32_t)end;
    *count = characters;
    return OK;
}

static Status put_character_ngrams(Workspace *ws, size_t size, size_t count)
{
    Status status = OK;
    for (size_t i = 0; status == OK && i + size <= count; i++)
        status = put(ws, ws->joined + ws->starts[i], ws->starts[i + size] - ws->starts[i]);
    return status;
}

/* scikit-learn's rule: two or more white-space characters become one space, a single one stays what it is. */
static Status analyze_characters(Workspace *ws, size_t n)
{
    if (reserve(&ws->joined, &ws->joined_room, n + PADDING, 1) != OK)
        return NO_MEMORY;
    size_t at = 0, done = 0, runs, count;
    if (find_runs(ws, n, false, true, &runs) != OK)
        return NO_MEMORY;
    for (size_t i = 0; i < runs; i++) {
        size_t start = ws->edges[2 * i], end = ws->edges[2 * i + 1];
        if (is_one_character(ws->text + start, end - start))
            continue;
        memcpy(ws->joined + at, ws->text + done, start - done);
        at += start - done;
        ws->joined[at++] = ' ';
        done = end;
    }
    memcpy(ws->joined + at, ws->text + done, n - done);
    at += n - done;
    memset(ws->joined + at, 0, PADDING);
    Status status = find_characters(ws, 0, at, &count);
    for (size_t size = ws->analyzer->low; status == OK && size <= ws->analyzer->high && size <= count; size++)
        status = put_character_ngrams(ws, size, count);
    return status;
}

/* n-grams of each word between two spaces; a word shorter than n counts once, whole. Neighbours share the space between them in
 * ws->joined, so nothing is overwritten that a token refers to. */
static Status analyze_characters_in_words(Workspace *ws, size_t n)
{
    if (reserve(&ws->joined, &ws->joined_room, n + 2 + PADDING, 1) != OK)
        return NO_MEMORY;
    memset(ws->joined, 0, n + 2 + PADDING);
    ws->joined[0] = ' ';
    size_t at = 0, runs, count;
    Status status = find_runs(ws, n, true, false, &runs);
    for (size_t i = 0; status == OK && i < runs; i++) {
        size_t start = ws->edges[2 * i], end = ws->edges[2 * i + 1];
        size_t last = at + 1 + (end - start); /* the space after the word */
        memcpy(ws->joined + at + 1, ws->text + start, end - start);
        ws->joined[last] = ' ';
        status = find_characters(ws, at, last + 1, &count);
        for (size_t size = ws->analyzer->low; status == OK && size <= ws->analyzer->high; size++) {
            if (size >= count) {
                status = put(ws, ws->joined + at, last + 1 - at);
                break;
            }
            status = put_character_ngrams(ws, size, count);
        }
        at = last;
    }
    return status;
}

static Status analyze_bytes(Workspace *ws, const Document *document)
{
    size_t n = document->size;
    if (reserve(&ws->text, &ws->text_room, n + PADDING, 1) != OK)
        return NO_MEMORY;
    if (n)
        memcpy(ws->text, document->text, n);
    memset(ws->text + n, 0, PADDING);
    Status status = OK;
    for (size_t size = ws->analyzer->low; size <= ws->analyzer->high && size <= n; size++)
        for (size_t i = 0; status == OK && i + size <= n; i++)
            status = put(ws, ws->text + i, size);
    return status;
}

/* -- presence: the distinct columns of a document, ascending. Terms are hashed as they come: sorting columns costs less than telling
 * terms apart first. */

static Status found_room(Workspace *ws, size_t more)
{
    return reserve(&ws->found, &ws->found_room, ws->found_used + more + 1, sizeof *ws->found);
}

static Status find_byte_columns(Workspace *ws, const Document *document)
{
    size_t n = document->size, words = n + PADDING;
    if (reserve(&ws->text, &ws->text_room, n + PADDING + 4, 1) != OK || reserve(&ws->edges, &ws->edges_room, words, sizeof *ws->edges) != OK)
        return NO_MEMORY;
    if (n)
        memcpy(ws->text, document->text, n);
    memset(ws->text + n, 0, PADDING + 4);
    for (size_t i = 0; i < words; i++)
        ws->edges[i] = little4(ws->text + i);
    uint32_t width = ws->columns;
    for (size_t size = ws->analyzer->low; size <= ws->analyzer->high && size <= n; size++) {
        size_t grams = n - size + 1;
        if (found_room(ws, grams) != OK)
            return NO_MEMORY;
        uint32_t *out = ws->found + ws->found_used;
        ws->found_used += grams;
        if (size < 4 || size > 8) {
            for (size_t i = 0; i < grams; i++)
                out[i] = column_of(murmur3(ws->text + i, size), width);
            continue;
        }
        bool divide = width & (width - 1);
        hash_short_grams(ws->edges, grams, size, divide ? 0xffffffffu : width - 1, out);
        for (size_t i = 0; divide && i < grams; i++)
            out[i] %= width;
    }
    return OK;
}

static Status find_word_columns(Workspace *ws, size_t n)
{
    const Analyzer *analyzer = ws->analyzer;
    size_t count = 0;
    if (analyzer->high == 1 && analyzer->shortest == 1 && !analyzer->has_stop_words) { /* words where they lie */
        if (find_runs(ws, n, false, false, &count) != OK || found_room(ws, count) != OK)
            return NO_MEMORY;
        for (size_t i = 0; i < count; i++) {
            uint32_t start = ws->edges[2 * i];
            ws->found[i] = column_of(murmur3(ws->text + start, ws->edges[2 * i + 1] - start), ws->columns);
        }
        ws->found_used = count;
        return OK;
    }
    if (join_words(ws, n, &count) != OK)
        return NO_MEMORY;
    for (size_t size = analyzer->low; size <= analyzer->high && size <= count; size++) {
        size_t grams = count - size + 1;
        if (found_room(ws, grams) != OK)
            return NO_MEMORY;
        uint32_t *out = ws->found + ws->found_used;
        ws->found_used += grams;
        for (size_t i = 0; i < grams; i++) {
            uint32_t start = ws->spans[i].start;
            out[i] = column_of(murmur3(ws->joined + start, ws->spans[i + size - 1].end - start), ws->columns);
        }
    }
    return OK;
}

/* Least digit first, digits of `width` bits; the sorted array is the one that is returned. */
static inline uint32_t *sort_by_digits(uint32_t *from, uint32_t *to, size_t n, int bits, const int width)
{
    uint32_t count[4][2048];
    const uint32_t last = (1u << width) - 1;
    int passes = (bits + width - 1) / width;
    for (int pass = 0; pass < passes; pass++)
        memset(count[pass], 0, sizeof(uint32_t) << width);
    for (size_t i = 0; i < n; i++)
        for (int pass = 0; pass < passes; pass++)
            count[pass][from[i] >> (width * pass) & last]++;
    for (int pass = 0; pass < passes; pass++) {
        uint32_t at = 0, *places = count[pass];
        for (uint32_t digit = 0; digit <= last; digit++) {
            uint32_t here = places[digit];
            places[digit] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++)
            to[places[from[i] >> (width * pass) & last]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static uint32_t *sort_columns(uint32_t *from, uint32_t *spare, size_t n, uint32_t width)
{
    if (n <= 40) {
        for (size_t i = 1; i < n; i++) {
            uint32_t item = from[i];
            size_t j = i;
            for (; j && from[j - 1] > item; j--)
                from[j] = from[j - 1];
            from[j] = item;
        }
        return from;
    }
    int bits = 0;
    while (bits < 31 && (width - 1) >> bits)
        bits++;
    return n < 1000 ? sort_by_digits(from, spare, n, bits, 8) : sort_by_digits(from, spare, n, bits, 11);
}

/* The columns found become a row at the end of ws->ids. */
static Status settle_columns(Workspace *ws)
{
    size_t n = ws->found_used;
    if (reserve(&ws->ids, &ws->ids_room, ws->used + n + 1, sizeof *ws->ids) != OK ||
        reserve(&ws->spare, &ws->spare_room, n + 1, sizeof *ws->spare) != OK)
        return NO_MEMORY;
    if (!n)
        return OK;
    const uint32_t *sorted = sort_columns(ws->found, ws->spare, n, ws->columns);
    uint32_t *row = ws->ids + ws->used;
    size_t used = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        row[used] = sorted[i];
        used += sorted[i] != sorted[i + 1];
    }
    row[used++] = sorted[n - 1];
    ws->used += used;
    return OK;
}

/* One document as a row at the end of ws->ids and ws->counts. */
static Status count_document(Workspace *ws, const Document *document)
{
    Kind kind = ws->analyzer->kind;
    if (kind != BYTES) {
        Status status = prepare(ws, document, kind == WORDS ? WORD : SPACE);
        if (status != OK)
            return status;
    }
    if (ws->presence && (kind == WORDS || kind == BYTES)) {
        ws->row = ws->used;
        ws->found_used = 0;
        return kind == WORDS ? find_word_columns(ws, document->size) : find_byte_columns(ws, document);
    }
    Status status = document_begin(ws);
    if (status == OK)
        switch (kind) {
        case WORDS: status = analyze_words(ws, document->size); break;
        case CHARS: status = analyze_characters(ws, document->size); break;
        case CHARS_IN_WORDS: status = analyze_characters_in_words(ws, document->size); break;
        case BYTES: status = analyze_bytes(ws, document); break;
        }
    if (status != OK)
        return status;
    return ws->table ? look_up(ws) : hash_columns(ws);
}

/* ------------------------------------------------------------------------------------------------ driver */

enum { GATHER = 64, GATHER_BYTES = 1 << 20 };

static int raise_status(Status status)
{
    if (status == TOO_MANY_TERMS)
        PyErr_Format(PyExc_OverflowError, "the vocabulary is full: it holds %d terms; use HashingVectorizer instead", MAX_TERMS);
    else
        PyErr_NoMemory();
    return -1;
}

static void document_close(Document *document) { Py_CLEAR(document->owner); }

/* The UTF-8 of a str. ASCII text is used where it lies; other text is encoded into bytes that are dropped after use, because
 * PyUnicode_AsUTF8AndSize would leave a copy with every str for as long as it lives. */
static int document_encode(State *state, PyObject *text, bool surrogates, Document *document)
{
    int ascii = ask(text, state->isascii);
    if (ascii < 0)
        return -1;
    Py_ssize_t size;
    if (ascii) {
        document->text = (const uint8_t *)PyUnicode_AsUTF8AndSize(text, &size);
        document->owner = Py_NewRef(text);
    } else {
        document->owner = PyUnicode_AsUTF8String(text);
        if (!document->owner && surrogates && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Clear(); /* lone surrogates */
            document->owner = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
        }
        if (!document->owner)
            return -1;
        char *bytes;
        if (PyBytes_AsStringAndSize(document->owner, &bytes, &size) < 0)
            return -1;
        document->text = (const uint8_t *)bytes;
    }
    if (!document->text)
        return -1;
    document->size = (size_t)size;
    return 0;
}

static int document_open(Workspace *ws, PyObject *given, Document *document)
{
    const Analyzer *analyzer = ws->analyzer;
    *document = (Document){.lower = analyzer->lowercase};
    if (PyUnicode_Check(given)) {
        /* characters that can't be encoded can't be hashed either, as in scikit-learn; they are no word characters */
        bool surrogates = ws->table || analyzer->kind == WORDS || analyzer->kind == BYTES;
        if (document_encode(ws->state, given, surrogates, document) < 0)
            return -1;
    } else if (analyzer->kind == BYTES && PyBytes_Check(given)) {
        char *bytes;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(given, &bytes, &size) < 0)
            return -1;
        *document = (Document){Py_NewRef(given), (const uint8_t *)bytes, (size_t)size, false};
    } else {
        const char *wanted = analyzer->kind == BYTES ? "str or bytes" : "str";
        PyErr_Format(PyExc_TypeError, "a document must be %s, got %R", wanted, (PyObject *)Py_TYPE(given));
        return -1;
    }
    if (analyzer->kind == BYTES && document->size > analyzer->max_bytes)
        document->size = analyzer->max_bytes;
    if (document->size > MAX_DOCUMENT) {
        PyErr_Format(PyExc_OverflowError, "a document of %zu bytes is too long: split it into pieces of at most %d", document->size,
                     MAX_DOCUMENT);
        return -1;
    }
    return 0;
}

/* Do under the GIL what the workers asked for; -1 with an exception if it can't be done. */
static int help_out(Workspace *ws, Status status, PyObject *given, Document *document)
{
    if (status == NEED_PAGE) {
        ws->pages[ws->page_needed] = learn_page(ws->state, ws->page_needed);
        return ws->pages[ws->page_needed] ? 0 : -1;
    }
    if (status != NEED_LOWER)
        return raise_status(status);
    PyObject *lowered = PyObject_CallMethodObjArgs(given, ws->state->lower, NULL);
    if (!lowered)
        return -1;
    document_close(document);
    bool surrogates = ws->table || ws->analyzer->kind == WORDS;
    int result = document_encode(ws->state, lowered, surrogates, document);
    Py_DECREF(lowered);
    document->lower = false;
    if (result == 0 && document->size > MAX_DOCUMENT) {
        PyErr_SetString(PyExc_OverflowError, "a document is too long after str.lower(): split it into pieces");
        return -1;
    }
    return result;
}

typedef Status (*RowDone)(Workspace *ws, size_t index, void *context);

/* Count every document of a list; `done` is called without the GIL after each. */
static int drive(Workspace *ws, PyObject *documents, RowDone done, void *context)
{
    Document gathered[GATHER];
    PyObject *given[GATHER];
    Py_ssize_t n = PyList_Size(documents);
    int failed = 0;
    for (Py_ssize_t at = 0; at < n && !failed;) {
        int have = 0;
        for (size_t bytes = 0; have < GATHER && at + have < n && bytes < GATHER_BYTES && !failed;) {
            PyObject *item = PyList_GetItem(documents, at + have);
            if (!item) { /* another thread shortened the list */
                failed = 1;
                break;
            }
            given[have] = Py_NewRef(item);
            failed = document_open(ws, item, &gathered[have]) < 0;
            bytes += failed ? 0 : gathered[have].size;
            have++;
        }
        for (int i = 0; i < have && !failed;) {
            Status status = OK;
            Py_BEGIN_ALLOW_THREADS
            for (; i < have; i++) {
                status = count_document(ws, &gathered[i]);
                if (status == OK)
                    status = done(ws, (size_t)(at + i), context);
                if (status != OK)
                    break;
            }
            Py_END_ALLOW_THREADS
            if (status != OK)
                failed = help_out(ws, status, given[i], &gathered[i]) < 0;
        }
        for (int i = 0; i < have; i++) {
            document_close(&gathered[i]);
            Py_DECREF(given[i]);
        }
        at += have;
    }
    return failed ? -1 : 0;
}

/* ------------------------------------------------------------------------------------------------ Python: buffers and arguments */

/* A contiguous buffer of items; -1 with an exception that names it. */
static int get_items(PyObject *from, Py_buffer *view, size_t item, bool writable, const char *name)
{
    if (PyObject_GetBuffer(from, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return -1;
    if (view->len && ((size_t)view->len % item || (uintptr_t)view->buf % item)) {
        PyErr_Format(PyExc_ValueError, "%s: expected an aligned buffer of %zu-byte items, got %zd bytes", name, item, view->len);
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

static size_t items_in(const Py_buffer *view, size_t item) { return (size_t)view->len / item; }

static bool is_list(PyObject *documents)
{
    if (PyList_Check(documents))
        return true;
    PyErr_Format(PyExc_TypeError, "documents must be a list, got %R", (PyObject *)Py_TYPE(documents));
    return false;
}

/* ------------------------------------------------------------------------------------------------ Python: Analyzer */

PyDoc_STRVAR(analyzer_doc,
             "Analyzer(kind='word', low=1, high=1, lowercase=True, shortest=2, max_bytes=3000, stop_words=())\n--\n\n"
             "How a document is cut into tokens.\n\n"
             "kind: 'word' (runs of \\w of at least `shortest` characters), 'char', 'char_wb' or 'bytes' (of the first `max_bytes`\n"
             "bytes, never lower-cased); low, high: the n-gram sizes; stop_words: a sequence of str, for 'word' only.");

static int add_terms(Table *table, PyObject *terms)
{
    PyObject *list = PySequence_List(terms);
    if (!list)
        return -1;
    Py_ssize_t n = PyList_Size(list);
    int failed = 0;
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        PyObject *term = PyList_GetItem(list, i), *bytes;
        if (PyUnicode_Check(term))
            bytes = PyUnicode_AsEncodedString(term, "utf-8", "surrogatepass");
        else if (PyBytes_Check(term))
            bytes = Py_NewRef(term);
        else {
            PyErr_Format(PyExc_TypeError, "a term must be str or bytes, got %R", (PyObject *)Py_TYPE(term));
            bytes = NULL;
        }
        char *text;
        Py_ssize_t size;
        uint32_t id;
        failed = !bytes || PyBytes_AsStringAndSize(bytes, &text, &size) < 0;
        if (!failed) {
            Status status = table_add(table, (const uint8_t *)text, (size_t)size, &id);
            failed = status != OK && raise_status(status) < 0;
        }
        Py_XDECREF(bytes);
    }
    Py_DECREF(list);
    return failed ? -1 : 0;
}

static PyObject *analyzer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"kind", "low", "high", "lowercase", "shortest", "max_bytes", "stop_words", NULL};
    const char *kind = "word";
    Py_ssize_t low = 1, high = 1, shortest = 2, max_bytes = 3000;
    int lowercase = 1;
    PyObject *stop_words = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|snnpnnO:Analyzer", names, &kind, &low, &high, &lowercase, &shortest, &max_bytes,
                                     &stop_words))
        return NULL;
    static const char *const kinds[] = {"word", "char", "char_wb", "bytes"};
    int which = 0;
    while (which < 4 && strcmp(kind, kinds[which]))
        which++;
    if (which == 4)
        return PyErr_Format(PyExc_ValueError, "kind must be 'word', 'char', 'char_wb' or 'bytes', got '%s'", kind);
    if (low < 1 || high < low)
        return PyErr_Format(PyExc_ValueError, "n-gram sizes must be 1 <= low <= high, got %zd and %zd", low, high);
    if (shortest < 1 || shortest > 2)
        return PyErr_Format(PyExc_ValueError, "shortest must be 1 or 2, got %zd", shortest);
    if (max_bytes < 0)
        return PyErr_Format(PyExc_ValueError, "max_bytes must not be negative, got %zd", max_bytes);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Analyzer *self = (Analyzer *)allocate(type, 0);
    if (!self)
        return NULL;
    self->kind = (Kind)which;
    self->low = (size_t)low;
    self->high = (size_t)high;
    self->lowercase = lowercase && self->kind != BYTES;
    self->shortest = (size_t)shortest;
    self->max_bytes = (size_t)max_bytes;
    Status status = table_init(&self->stop_words);
    if ((status != OK && raise_status(status) < 0) || (stop_words && add_terms(&self->stop_words, stop_words) < 0)) {
        Py_DECREF(self);
        return NULL;
    }
    self->has_stop_words = self->stop_words.terms > 0;
    return (PyObject *)self;
}

static void plain_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static void analyzer_dealloc(PyObject *self)
{
    table_free(&((Analyzer *)self)->stop_words);
    plain_dealloc(self);
}

static PyType_Slot analyzer_slots[] = {
    {Py_tp_doc, (void *)analyzer_doc}, {Py_tp_new, analyzer_new}, {Py_tp_dealloc, analyzer_dealloc}, {0, NULL}};
static PyType_Spec analyzer_spec = {
    .name = "surebayes.kernels._text.Analyzer", .basicsize = sizeof(Analyzer), .flags = Py_TPFLAGS_DEFAULT, .slots = analyzer_slots};

/* ------------------------------------------------------------------------------------------------ Python: Vocabulary */

PyDoc_STRVAR(vocabulary_doc, "Vocabulary(ends=None, text=None)\n--\n\n"
                             "Terms, numbered in the order in which they were first seen.\n\n"
                             "ends, text: what dump() gave.");

static int may_read(const Vocabulary *self)
{
    if (!self->writer)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "another thread is adding terms to this vocabulary: wait for it, or give each thread its own");
    return -1;
}

static int may_write(const Vocabulary *self)
{
    if (!self->writer && !self->readers)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "another thread is using this vocabulary: wait for it, or give each thread its own");
    return -1;
}

static Vocabulary *vocabulary_make(PyTypeObject *type)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Vocabulary *self = (Vocabulary *)allocate(type, 0);
    if (self && table_init(&self->table) != OK) {
        Py_DECREF(self);
        PyErr_NoMemory();
        return NULL;
    }
    return self;
}

/* Add the terms of a dump, checking it as if it came from a stranger. */
static int vocabulary_load(Vocabulary *self, PyObject *ends_from, PyObject *text_from)
{
    Py_buffer ends, text;
    if (get_items(ends_from, &ends, 1, false, "ends") < 0) /* bytes: they may lie anywhere */
        return -1;
    if (get_items(text_from, &text, 1, false, "text") < 0) {
        PyBuffer_Release(&ends);
        return -1;
    }
    uint64_t start = 0, end;
    int failed = ends.len % 8 != 0;
    if (failed)
        PyErr_Format(PyExc_ValueError, "ends: expected a buffer of 8-byte items, got %zd bytes", ends.len);
    for (size_t i = 0; i < items_in(&ends, 8) && !failed; start = end, i++) {
        uint32_t id;
        memcpy(&end, (const uint8_t *)ends.buf + 8 * i, 8);
        if (end < start || end > (uint64_t)text.len) {
            PyErr_Format(PyExc_ValueError, "ends must rise and stay within the text: term %zu ends wrongly", i);
            failed = 1;
            break;
        }
        Status status = table_add(&self->table, (const uint8_t *)text.buf + start, (size_t)(end - start), &id);
        failed = status != OK && raise_status(status) < 0;
        if (!failed && id != i) {
            PyErr_Format(PyExc_ValueError, "term %zu is the same as term %u", i, (unsigned)id);
            failed = 1;
        }
    }
    PyBuffer_Release(&ends);
    PyBuffer_Release(&text);
    return failed ? -1 : 0;
}

static PyObject *vocabulary_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ends", "text", NULL};
    PyObject *ends = Py_None, *text = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:Vocabulary", names, &ends, &text))
        return NULL;
    Vocabulary *self = vocabulary_make(type);
    if (self && (ends != Py_None || text != Py_None) && vocabulary_load(self, ends, text) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void vocabulary_dealloc(PyObject *self)
{
    table_free(&((Vocabulary *)self)->table);
    plain_dealloc(self);
}

static Py_ssize_t vocabulary_length(PyObject *self) { return (Py_ssize_t)((Vocabulary *)self)->table.terms; }

PyDoc_STRVAR(vocabulary_add_doc, "add(terms)\n--\n\nAdd str or bytes terms that are not there yet, in the given order.");
static PyObject *vocabulary_add(PyObject *self, PyObject *terms)
{
    if (may_write((Vocabulary *)self) < 0 || add_terms(&((Vocabulary *)self)->table, terms) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(vocabulary_find_doc, "find(term)\n--\n\nThe id of a str or bytes term; -1 if it is not there.");
static PyObject *vocabulary_find(PyObject *self, PyObject *term)
{
    const Table *table = &((Vocabulary *)self)->table;
    if (may_read((Vocabulary *)self) < 0)
        return NULL;
    PyObject *bytes = PyUnicode_Check(term) ? PyUnicode_AsEncodedString(term, "utf-8", "surrogatepass") : Py_NewRef(term);
    char *text;
    Py_ssize_t size;
    if (!bytes || PyBytes_AsStringAndSize(bytes, &text, &size) < 0) {
        Py_XDECREF(bytes);
        return NULL;
    }
    long id = size ? -1 : (long)table->empty - 1;
    uint8_t *copy = calloc(1, (size_t)size + PADDING);
    if (copy && size && size <= MAX_DOCUMENT) {
        memcpy(copy, text, (size_t)size);
        Token token = token_of(copy, (size_t)size);
        const Entry *e = table_find(table, &token);
        if (e->head || e->tail)
            id = (long)(e->id & ~LONG);
    }
    Py_DECREF(bytes);
    if (!copy)
        return PyErr_NoMemory();
    free(copy);
    return PyLong_FromLong(id);
}

PyDoc_STRVAR(vocabulary_merge_doc, "merge(other)\n--\n\nAdd the terms of another vocabulary; for each of its ids the id here, as uint32.");
static PyObject *vocabulary_merge(PyObject *self, PyObject *other)
{
    State *state = state_of_type(self);
    if (!PyObject_TypeCheck(other, state->vocabulary_type))
        return PyErr_Format(PyExc_TypeError, "other must be a Vocabulary, got %R", (PyObject *)Py_TYPE(other));
    Vocabulary *to = (Vocabulary *)self, *from = (Vocabulary *)other;
    if (to == from) {
        PyErr_SetString(PyExc_ValueError, "a vocabulary can't be merged with itself");
        return NULL;
    }
    if (may_write(to) < 0 || may_read(from) < 0)
        return NULL;
    size_t n = from->table.terms;
    uint32_t *ids = malloc((n ? n : 1) * sizeof *ids);
    if (!ids)
        return PyErr_NoMemory();
    Status status = OK;
    to->writer = true;
    from->readers++;
    Py_BEGIN_ALLOW_THREADS
    for (size_t i = 0; i < n && status == OK; i++) {
        size_t size;
        const uint8_t *term = term_start(&from->table, (uint32_t)i, &size);
        status = table_add(&to->table, term, size, &ids[i]);
    }
    Py_END_ALLOW_THREADS
    to->writer = false;
    from->readers--;
    if (status != OK) {
        free(ids);
        raise_status(status);
        return NULL;
    }
    return block_of(state, ids, n * sizeof *ids);
}

PyDoc_STRVAR(vocabulary_order_doc, "order(first=0)\n--\n\nThe ids from `first` on, in the order of their terms, as uint32.");
static PyObject *vocabulary_order(PyObject *self, PyObject *args)
{
    Vocabulary *vocabulary = (Vocabulary *)self;
    Py_ssize_t first = 0;
    if (!PyArg_ParseTuple(args, "|n:order", &first) || may_read(vocabulary) < 0)
        return NULL;
    size_t terms = vocabulary->table.terms;
    if (first < 0 || (size_t)first > terms)
        return PyErr_Format(PyExc_ValueError, "first must be between 0 and %zu, got %zd", terms, first);
    size_t n = terms - (size_t)first;
    uint32_t *order = malloc((n ? n : 1) * sizeof *order);
    if (!order)
        return PyErr_NoMemory();
    Status status;
    vocabulary->readers++;
    Py_BEGIN_ALLOW_THREADS
    status = table_order(&vocabulary->table, (size_t)first, order);
    Py_END_ALLOW_THREADS
    vocabulary->readers--;
    if (status != OK) {
        free(order);
        raise_status(status);
        return NULL;
    }
    return block_of(state_of_type(self), order, n * sizeof *order);
}

PyDoc_STRVAR(vocabulary_terms_doc, "terms(ids, latin=False)\n--\n\n"
                                   "The terms of a buffer of uint32 ids, as a list of str; latin=True: one character a byte.");
static PyObject *vocabulary_terms(PyObject *self, PyObject *args)
{
    const Table *table = &((Vocabulary *)self)->table;
    PyObject *from, *list = NULL;
    Py_buffer view;
    int latin = 0;
    if (!PyArg_ParseTuple(args, "O|p:terms", &from, &latin) || may_read((Vocabulary *)self) < 0 ||
        get_items(from, &view, sizeof(uint32_t), false, "ids") < 0)
        return NULL;
    const uint32_t *ids = view.buf;
    size_t n = items_in(&view, sizeof *ids);
    list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *term = NULL;
        if (ids[i] >= table->terms)
            PyErr_Format(PyExc_IndexError, "there are %zu terms, no id %u", table->terms, (unsigned)ids[i]);
        else {
            size_t size;
            const char *text = (const char *)term_start(table, ids[i], &size);
            if (size == 0)
                text = "";
            term = latin ? PyUnicode_DecodeLatin1(text, (Py_ssize_t)size, NULL)
                         : PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "surrogatepass");
        }
        if (!term || PyList_SetItem(list, (Py_ssize_t)i, term) < 0)
            Py_CLEAR(list);
    }
    PyBuffer_Release(&view);
    return list;
}

PyDoc_STRVAR(vocabulary_select_doc, "select(ids)\n--\n\nA new vocabulary of the terms with these uint32 ids, in this order.");
static PyObject *vocabulary_select(PyObject *self, PyObject *from)
{
    const Table *table = &((Vocabulary *)self)->table;
    Py_buffer view;
    if (may_read((Vocabulary *)self) < 0 || get_items(from, &view, sizeof(uint32_t), false, "ids") < 0)
        return NULL;
    Vocabulary *chosen = vocabulary_make(Py_TYPE(self));
    const uint32_t *ids = view.buf;
    for (size_t i = 0; chosen && i < items_in(&view, sizeof *ids); i++) {
        if (ids[i] >= table->terms) {
            PyErr_Format(PyExc_IndexError, "there are %zu terms, no id %u", table->terms, (unsigned)ids[i]);
            Py_CLEAR(chosen);
            break;
        }
        size_t size;
        uint32_t id;
        const uint8_t *term = term_start(table, ids[i], &size);
        Status status = table_add(&chosen->table, term, size, &id);
        if (status != OK) {
            raise_status(status);
            Py_CLEAR(chosen);
        }
    }
    PyBuffer_Release(&view);
    return (PyObject *)chosen;
}

PyDoc_STRVAR(vocabulary_dump_doc, "dump()\n--\n\n(ends, text): the end of each term (uint64) in all terms written one after the other.");
static PyObject *vocabulary_dump(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const Table *table = &((Vocabulary *)self)->table;
    if (may_read((Vocabulary *)self) < 0)
        return NULL;
    PyObject *ends = PyBytes_FromStringAndSize((const char *)table->ends, (Py_ssize_t)(table->terms * sizeof *table->ends));
    PyObject *text = PyBytes_FromStringAndSize((const char *)table->bytes, (Py_ssize_t)table->bytes_used);
    PyObject *pair = ends && text ? PyTuple_Pack(2, ends, text) : NULL;
    Py_XDECREF(ends);
    Py_XDECREF(text);
    return pair;
}

static PyMethodDef vocabulary_methods[] = {{"add", vocabulary_add, METH_O, vocabulary_add_doc},
                                           {"find", vocabulary_find, METH_O, vocabulary_find_doc},
                                           {"merge", vocabulary_merge, METH_O, vocabulary_merge_doc},
                                           {"order", vocabulary_order, METH_VARARGS, vocabulary_order_doc},
                                           {"terms", vocabulary_terms, METH_VARARGS, vocabulary_terms_doc},
                                           {"select", vocabulary_select, METH_O, vocabulary_select_doc},
                                           {"dump", vocabulary_dump, METH_NOARGS, vocabulary_dump_doc},
                                           {NULL, NULL, 0, NULL}};
static PyType_Slot vocabulary_slots[] = {{Py_tp_doc, (void *)vocabulary_doc},
                                         {Py_tp_new, vocabulary_new},
                                         {Py_tp_dealloc, vocabulary_dealloc},
                                         {Py_tp_methods, vocabulary_methods},
                                         {Py_sq_length, vocabulary_length},
                                         {0, NULL}};
static PyType_Spec vocabulary_spec = {
    .name = "surebayes.kernels._text.Vocabulary", .basicsize = sizeof(Vocabulary), .flags = Py_TPFLAGS_DEFAULT, .slots = vocabulary_slots};

/* ------------------------------------------------------------------------------------------------ Python: count, hash_count, place */

static Status note_length(Workspace *ws, size_t index, void *lengths)
{
    ((uint32_t *)lengths)[index] = (uint32_t)(ws->used - ws->row);
    return OK;
}

/* A copy of an array as a block. The workspace keeps its own arrays for the next call: they are warm, and growing new ones would
 * cost more page faults than copying costs. */
static PyObject *block_copy(State *state, const void *array, size_t bytes)
{
    void *copy = bytes ? malloc(bytes) : NULL;
    if (bytes && !copy)
        return PyErr_NoMemory();
    if (bytes)
        memcpy(copy, array, bytes);
    return block_of(state, copy, bytes);
}

/* The rows of a workspace as (lengths, ids, counts); takes over `lengths`. */
static PyObject *hand_over(Workspace *ws, uint32_t *lengths, size_t n)
{
    PyObject *a = block_of(ws->state, lengths, n * sizeof *lengths);
    PyObject *b = a ? block_copy(ws->state, ws->ids, ws->used * sizeof *ws->ids) : NULL;
    PyObject *c = b ? block_copy(ws->state, ws->counts, ws->used * sizeof *ws->counts) : NULL;
    PyObject *result = c ? PyTuple_Pack(3, a, b, c) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(c);
    return result;
}

static PyObject *count_all(Workspace *ws, PyObject *documents)
{
    size_t n = (size_t)PyList_Size(documents);
    uint32_t *lengths = calloc(n ? n : 1, sizeof *lengths);
    if (!lengths)
        return PyErr_NoMemory();
    if (drive(ws, documents, note_length, lengths) < 0) {
        free(lengths);
        return NULL;
    }
    return hand_over(ws, lengths, n);
}

PyDoc_STRVAR(count_doc, "count(analyzer, vocabulary, documents, grow=False)\n--\n\n"
                        "Count the tokens of a list of documents: (lengths, ids, counts) as uint32, uint32 and int32.\n\n"
                        "A row has lengths[i] pairs of vocabulary id and count, in the order in which they were first seen.\n"
                        "grow: add unknown tokens to the vocabulary; otherwise they are left out.");
static PyObject *count(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"analyzer", "vocabulary", "documents", "grow", NULL};
    State *state = PyModule_GetState(module);
    PyObject *analyzer, *given, *documents;
    int grow = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O|p:count", names, state->analyzer_type, &analyzer, state->vocabulary_type,
                                     &given, &documents, &grow) ||
        !is_list(documents))
        return NULL;
    Vocabulary *vocabulary = (Vocabulary *)given;
    if ((grow ? may_write(vocabulary) : may_read(vocabulary)) < 0)
        return NULL;
    Workspace *ws = workspace_take(state);
    if (!ws)
        return NULL;
    ws->analyzer = (Analyzer *)analyzer;
    ws->table = &vocabulary->table;
    ws->grow = grow;
    vocabulary->writer = grow;
    vocabulary->readers += !grow;
    PyObject *result = count_all(ws, documents);
    vocabulary->writer = false;
    vocabulary->readers -= !grow;
    workspace_give_back(ws);
    return result;
}

PyDoc_STRVAR(hash_count_doc, "hash_count(analyzer, n_features, documents, alternate_sign=False)\n--\n\n"
                             "As count(), but a token's id is its column: scikit-learn's 32-bit MurmurHash3 modulo n_features.");
static PyObject *hash_count(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"analyzer", "n_features", "documents", "alternate_sign", NULL};
    State *state = PyModule_GetState(module);
    PyObject *analyzer, *documents;
    Py_ssize_t n_features;
    int alternate_sign = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nO|p:hash_count", names, state->analyzer_type, &analyzer, &n_features, &documents,
                                     &alternate_sign) ||
        !is_list(documents))
        return NULL;
    if (n_features < 1 || n_features > 0x7fffffff)
        return PyErr_Format(PyExc_ValueError, "n_features must be between 1 and 2147483647, got %zd", n_features);
    Workspace *ws = workspace_take(state);
    if (!ws)
        return NULL;
    ws->analyzer = (Analyzer *)analyzer;
    ws->table = NULL;
    ws->columns = (uint32_t)n_features;
    ws->alternate_sign = alternate_sign;
    PyObject *result = count_all(ws, documents);
    workspace_give_back(ws);
    return result;
}

/* Columns of further terms of each document. */
typedef struct {
    uint32_t *columns, *lengths; /* lengths: of the rows made so far */
    size_t *ends, used, room, text_room;
    uint8_t *text;
} Terms;

static void terms_close(Terms *terms)
{
    free(terms->columns), free(terms->ends), free(terms->text);
}

/* Take the columns of one document over. */
static int terms_copy(Terms *terms, PyObject *columns, uint32_t width)
{
    char *from;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(columns, &from, &size) < 0)
        return -1;
    size_t n = (size_t)size / sizeof *terms->columns;
    if (reserve(&terms->columns, &terms->room, terms->used + n + 1, sizeof *terms->columns) != OK) {
        PyErr_NoMemory();
        return -1;
    }
    uint32_t beyond = 0, *to = terms->columns + terms->used;
    memcpy(to, from, n * sizeof *to);
    for (size_t i = 0; i < n; i++)
        beyond |= (uint32_t)(to[i] >= width);
    if (beyond || (size_t)size % sizeof *to) {
        PyErr_Format(PyExc_ValueError, "terms must be columns below %lu as uint32, or lists of str", (unsigned long)width);
        return -1;
    }
    terms->used += n;
    return 0;
}

/* Hash the str of one list. */
static int terms_add(Terms *terms, PyObject *list, uint32_t width)
{
    if (PyBytes_Check(list))
        return terms_copy(terms, list, width);
    if (!PyList_Check(list)) {
        PyErr_Format(PyExc_TypeError, "terms must be lists of str, or their columns as bytes, got %R", (PyObject *)Py_TYPE(list));
        return -1;
    }
    Py_ssize_t n = PyList_Size(list);
    if (reserve(&terms->columns, &terms->room, terms->used + (size_t)n + 1, sizeof *terms->columns) != OK) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *term = PyList_GetItem(list, i), *bytes = NULL;
        if (!term || !PyUnicode_Check(term)) {
            PyErr_SetString(PyExc_TypeError, "terms must be lists of str");
            return -1;
        }
        Py_ssize_t size = 0;
        char *text = (char *)PyUnicode_AsUTF8AndSize(term, &size);
        if (!text && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Clear(); /* lone surrogates */
            if (!(bytes = PyUnicode_AsEncodedString(term, "utf-8", "replace")) || PyBytes_AsStringAndSize(bytes, &text, &size) < 0)
                text = NULL;
        }
        if (text && reserve(&terms->text, &terms->text_room, (size_t)size + PADDING, 1) != OK) {
            PyErr_NoMemory();
            text = NULL;
        }
        if (text) { /* copied, because the hash reads beyond the end */
            memcpy(terms->text, text, (size_t)size);
            memset(terms->text + size, 0, PADDING);
            terms->columns[terms->used++] = column_of(murmur3(terms->text, (size_t)size), width);
        }
        Py_XDECREF(bytes);
        if (!text)
            return -1;
    }
    return 0;
}

/* Hash a list with the terms of each document. */
static int terms_open(Terms *terms, PyObject *lists, Py_ssize_t n, uint32_t width)
{
    if (!PyList_Check(lists) || PyList_Size(lists) != n) {
        PyErr_Format(PyExc_ValueError, "terms must be a list with one list of str for each of the %zd documents", n);
        return -1;
    }
    if (!(terms->ends = malloc(((size_t)n + 1) * sizeof *terms->ends))) {
        PyErr_NoMemory();
        return -1;
    }
    terms->ends[0] = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *list = PyList_GetItem(lists, i);
        if (!list || terms_add(terms, list, width) < 0)
            return -1;
        terms->ends[i + 1] = terms->used;
    }
    return 0;
}

static Status settle_row(Workspace *ws, size_t index, void *context)
{
    Terms *terms = context;
    size_t distinct = ws->used - ws->row;
    if (ws->analyzer->kind != WORDS && ws->analyzer->kind != BYTES) { /* counted as hash_count() does */
        ws->found_used = 0;
        if (found_room(ws, distinct) != OK)
            return NO_MEMORY;
        memcpy(ws->found, ws->ids + ws->row, distinct * sizeof *ws->found);
        ws->found_used = distinct;
        ws->used = ws->row;
    }
    if (terms->ends) {
        size_t start = terms->ends[index], more = terms->ends[index + 1] - start;
        if (found_room(ws, more) != OK)
            return NO_MEMORY;
        memcpy(ws->found + ws->found_used, terms->columns + start, more * sizeof *ws->found);
        ws->found_used += more;
    }
    Status status = settle_columns(ws);
    terms->lengths[index] = (uint32_t)(ws->used - ws->row);
    return status;
}

PyDoc_STRVAR(hash_rows_doc, "hash_rows(analyzer, n_features, documents, terms=None)\n--\n\n"
                            "Which columns the tokens of documents are hashed to: (lengths, columns) as uint32, ascending in each row, each once.\n\n"
                            "terms: for each document a list of str that are hashed too, or their columns: bytes of uint32.");
static PyObject *hash_rows(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"analyzer", "n_features", "documents", "terms", NULL};
    State *state = PyModule_GetState(module);
    PyObject *analyzer, *documents, *more = Py_None;
    Py_ssize_t n_features;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nO|O:hash_rows", names, state->analyzer_type, &analyzer, &n_features, &documents,
                                     &more) ||
        !is_list(documents))
        return NULL;
    if (n_features < 1 || n_features > 0x7fffffff)
        return PyErr_Format(PyExc_ValueError, "n_features must be between 1 and 2147483647, got %zd", n_features);
    Workspace *ws = workspace_take(state);
    if (!ws)
        return NULL;
    ws->analyzer = (Analyzer *)analyzer;
    ws->table = NULL;
    ws->columns = (uint32_t)n_features;
    ws->alternate_sign = false;
    ws->presence = true;
    size_t n = (size_t)PyList_Size(documents);
    Terms terms = {.lengths = calloc(n ? n : 1, sizeof(uint32_t))};
    PyObject *result = NULL, *lengths = NULL, *columns = NULL;
    if (!terms.lengths)
        PyErr_NoMemory();
    else if ((more != Py_None && terms_open(&terms, more, (Py_ssize_t)n, ws->columns) < 0) || drive(ws, documents, settle_row, &terms) < 0)
        free(terms.lengths);
    else if ((lengths = block_of(state, terms.lengths, n * sizeof(uint32_t)))) {
        if (ws->used > 1u << 20) { /* too large to be kept for the next call: handed over as it is */
            columns = block_of(state, ws->ids, ws->used * sizeof *ws->ids);
            ws->ids = NULL;
            ws->ids_room = 0;
        } else
            columns = block_copy(state, ws->ids, ws->used * sizeof *ws->ids);
        result = columns ? PyTuple_Pack(2, lengths, columns) : NULL;
    }
    Py_XDECREF(lengths);
    Py_XDECREF(columns);
    terms_close(&terms);
    workspace_give_back(ws);
    return result;
}

/* Sort by the upper half. `spare` is as long as `row`. */
static void sort_row(uint64_t *row, uint64_t *spare, size_t n)
{
    if (n <= 32) {
        for (size_t i = 1; i < n; i++) {
            uint64_t item = row[i];
            size_t j = i;
            for (; j && row[j - 1] > item; j--)
                row[j] = row[j - 1];
            row[j] = item;
        }
        return;
    }
    uint32_t count[4][256] = {{0}};
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) {
        all |= row[i];
        for (int pass = 0; pass < 4; pass++)
            count[pass][row[i] >> (32 + 8 * pass) & 255]++;
    }
    uint64_t *from = row, *to = spare;
    for (int pass = 0; pass < 4 && all >> (32 + 8 * pass); pass++) {
        uint32_t at = 0;
        for (int digit = 0; digit < 256; digit++) {
            uint32_t here = count[pass][digit];
            count[pass][digit] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++)
            to[count[pass][from[i] >> (32 + 8 * pass) & 255]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != row)
        memcpy(row, from, n * sizeof *row);
}

typedef struct {
    Py_buffer lengths, ids, counts, map, columns, values;
    bool has_map, binary;
    char code;
    size_t offset;
} Placing;

/* Rows by column into the output; the number of entries written, or -1 if an id is not in the map, -2 without memory. */
static int64_t place_rows(Placing *p)
{
    uint32_t *lengths = p->lengths.buf;
    const uint32_t *ids = p->ids.buf;
    const int32_t *counts = p->counts.buf, *map = p->has_map ? p->map.buf : NULL;
    size_t rows = items_in(&p->lengths, 4), mapped = p->has_map ? items_in(&p->map, 4) : 0x80000000u, longest = 0, at = p->offset;
    for (size_t r = 0; r < rows; r++)
        longest = lengths[r] > longest ? lengths[r] : longest;
    uint64_t *row = malloc((longest + 1) * 2 * sizeof *row);
    if (!row)
        return -2;
    int32_t *columns = p->columns.buf;
    for (size_t r = 0; r < rows; r++) {
        size_t n = 0;
        for (size_t i = 0; i < lengths[r]; i++) {
            if (ids[i] >= mapped) {
                free(row);
                return -1;
            }
            int32_t column = map ? map[ids[i]] : (int32_t)ids[i];
            row[n] = (uint64_t)(uint32_t)column << 32 | (uint32_t)counts[i];
            n += column >= 0; /* a negative column leaves the term out */
        }
        sort_row(row, row + longest + 1, n);
        for (size_t i = 0; i < n; i++)
            columns[at + i] = (int32_t)(row[i] >> 32);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = p->binary ? 1 : (uint32_t)row[i];
            int32_t value;
            memcpy(&value, &bits, sizeof value);
            if (p->code == 'q')
                ((int64_t *)p->values.buf)[at + i] = value;
            else if (p->code == 'd')
                ((double *)p->values.buf)[at + i] = value;
            else
                ((int32_t *)p->values.buf)[at + i] = value;
        }
        ids += lengths[r];
        counts += lengths[r];
        lengths[r] = (uint32_t)n;
        at += n;
    }
    free(row);
    return (int64_t)(at - p->offset);
}

static int placing_check(const Placing *p, size_t width)
{
    const uint32_t *lengths = p->lengths.buf;
    uint64_t total = 0;
    for (size_t r = 0; r < items_in(&p->lengths, 4); r++)
        total += lengths[r];
    size_t ids = items_in(&p->ids, 4), room = items_in(&p->columns, 4), room_too = items_in(&p->values, width);
    if (total != ids || items_in(&p->counts, 4) != ids) {
        PyErr_SetString(PyExc_ValueError, "lengths, ids and counts don't belong together: give them as count() returned them");
        return -1;
    }
    room = room < room_too ? room : room_too;
    if (p->offset > room || ids > room - p->offset) {
        PyErr_Format(PyExc_ValueError, "columns and values have room for %zu entries, not for %zu at offset %zu", room, ids, p->offset);
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(place_doc, "place(lengths, ids, counts, map, columns, values, offset=0, code='q', binary=False)\n--\n\n"
                        "Write the rows of count() into columns (int32) and values from `offset` on, each row sorted by column.\n\n"
                        "map: the column of each id (int32), negative to leave the term out; None: the id is the column.\n"
                        "code: 'i' int32, 'q' int64 or 'd' float64 values; binary: every value is 1.\n"
                        "Returns the number of entries written; `lengths` becomes the number in each row.");
static PyObject *place(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"lengths", "ids", "counts", "map", "columns", "values", "offset", "code", "binary", NULL};
    PyObject *from[6];
    Py_ssize_t offset = 0;
    int code = 'q', binary = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOOO|nCp:place", names, &from[0], &from[1], &from[2], &from[3], &from[4], &from[5],
                                     &offset, &code, &binary))
        return NULL;
    if (code != 'i' && code != 'q' && code != 'd')
        return PyErr_Format(PyExc_ValueError, "code must be 'i', 'q' or 'd', got '%c'", code);
    if (offset < 0)
        return PyErr_Format(PyExc_ValueError, "offset must not be negative, got %zd", offset);
    size_t width = code == 'i' ? 4 : 8;
    Placing p = {.has_map = from[3] != Py_None, .binary = binary, .code = (char)code, .offset = (size_t)offset};
    Py_buffer *views[6] = {&p.lengths, &p.ids, &p.counts, &p.map, &p.columns, &p.values};
    const size_t items[6] = {4, 4, 4, 4, 4, width};
    const bool writable[6] = {true, false, false, false, true, true};
    int have = 0;
    bool taken[6] = {false};
    for (; have < 6; have++) {
        if (have == 3 && !p.has_map)
            continue;
        if (get_items(from[have], views[have], items[have], writable[have], names[have]) < 0)
            break;
        taken[have] = true;
    }
    int64_t written = -3;
    if (have == 6 && placing_check(&p, width) == 0) {
        Py_BEGIN_ALLOW_THREADS
        written = place_rows(&p);
        Py_END_ALLOW_THREADS
        if (written == -1)
            PyErr_SetString(PyExc_ValueError, "an id is not in the map: the map must have a column for every term");
        if (written == -2)
            PyErr_NoMemory();
    }
    for (int i = 0; i < 6; i++)
        if (taken[i])
            PyBuffer_Release(views[i]);
    return written < 0 ? NULL : PyLong_FromLongLong(written);
}

/* ------------------------------------------------------------------------------------------------ Python: Scorer */

PyDoc_STRVAR(scorer_doc,
             "Scorer(analyzer, vocabulary, n_features, records, prior, *, alternate_sign=False, binary=False, tf='count', weighted=False,\n"
             "       columns=None, top=0, steepness=None, norm=None, pad=0.0, length=1.0)\n--\n\n"
             "Text straight to linear scores: prior + z @ log_odds, z the represented row.\n\n"
             "records: for each id one record of float64: [weight, if weighted] [rank, if top] log-odds of each class.\n"
             "prior: one float64 a class. vocabulary None: hash into n_features. columns: column of each id (int32), negative to leave the\n"
             "term out. Of two terms the one of the lower rank is better, or of the lower column. z: count (1 if binary) -> tf -> the `top` best by rank -> times weight ->\n"
             "exp(steepness * value) -> divided by its norm ('l1' or 'l2') plus pad -> times length.");

typedef enum { TF_COUNT, TF_BINARY, TF_LOG } Tf;

typedef struct {
    PyObject_HEAD
    Analyzer *analyzer;
    Vocabulary *vocabulary;
    Py_buffer records, prior, columns;
    bool has_records, has_prior, has_columns, alternate_sign, binary, weighted, softmax;
    uint32_t n_features;
    Tf tf;
    int norm; /* 0, 1, 2 */
    double steepness, pad, length;
    size_t top, classes, stride, known; /* known: records there are */
    double logs[64];                    /* log(1 + n) of small n */
} Scorer;

/* a is kept rather than b */
static inline bool better(const Candidate *a, const Candidate *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->column < b->column);
}

/* Restore the heap (the worst at the root) below `i`. */
static void sift_down(Candidate *heap, size_t n, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(&heap[child], &heap[child + 1]))
            child++;
        if (!better(&heap[i], &heap[child]))
            return;
        Candidate swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
    }
}

static inline Candidate candidate_of(const Scorer *s, uint32_t id)
{
    const double *rank = (const double *)s->records.buf + s->weighted;
    uint32_t column = s->has_columns ? (uint32_t)((const int32_t *)s->columns.buf)[id] : id;
    return (Candidate){rank[(size_t)id * s->stride], column};
}

/* Keep the `top` best entries of a row, in their order; n log(top) in the worst case, whatever the ranks. */
static Status keep_top(const Scorer *s, Workspace *ws, uint32_t *ids, int32_t *counts, size_t *n)
{
    if (reserve(&ws->heap, &ws->heap_room, s->top, sizeof *ws->heap) != OK)
        return NO_MEMORY;
    Candidate *heap = ws->heap;
    for (size_t i = 0; i < s->top; i++)
        heap[i] = candidate_of(s, ids[i]);
    for (size_t i = s->top / 2 + 1; i-- > 0;)
        sift_down(heap, s->top, i);
    for (size_t i = s->top; i < *n; i++) {
        Candidate c = candidate_of(s, ids[i]);
        if (better(&c, &heap[0])) {
            heap[0] = c;
            sift_down(heap, s->top, 0);
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < *n && kept < s->top; i++) {
        Candidate c = candidate_of(s, ids[i]);
        if (better(&heap[0], &c))
            continue;
        ids[kept] = ids[i];
        counts[kept++] = counts[i];
    }
    *n = kept;
    return OK;
}

/* Term frequency times weight. */
static inline double term_value(const Scorer *s, uint32_t id, int32_t count)
{
    double value = 1.0;
    if (s->tf == TF_COUNT)
        value = s->binary ? 1 : count;
    else if (s->tf == TF_LOG)
        value = s->binary ? s->logs[1] : count >= 0 && count < 64 ? s->logs[count] : log1p(count);
    return s->weighted ? value * ((const double *)s->records.buf)[(size_t)id * s->stride] : value;
}

/* Leave out terms that came after the model, and those that it leaves out. */
static size_t keep_known(const Scorer *s, uint32_t *ids, int32_t *counts, size_t n)
{
    const int32_t *columns = s->has_columns ? s->columns.buf : NULL;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < s->known && !(columns && columns[ids[i]] < 0)) {
            ids[kept] = ids[i];
            counts[kept++] = counts[i];
        }
    return kept;
}

/* The scores of one row; ids and counts are changed. */
static Status score_row(const Scorer *s, Workspace *ws, uint32_t *ids, int32_t *counts, size_t n, double *out)
{
    const double *records = s->records.buf;
    n = keep_known(s, ids, counts, n);
    if (s->top && n > s->top && keep_top(s, ws, ids, counts, &n) != OK)
        return NO_MEMORY;
    double size = 0, largest = 0;
    for (size_t k = 0; k < s->classes; k++)
        out[k] = 0;
    if (s->softmax && s->norm && s->pad == 0 && n) { /* the norm cancels any factor, so the largest exponent may be 0: no overflow */
        largest = s->steepness * term_value(s, ids[0], counts[0]);
        for (size_t i = 1; i < n; i++)
            largest = fmax(largest, s->steepness * term_value(s, ids[i], counts[i]));
    }
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            PREFETCH(records + (size_t)ids[i + AHEAD] * s->stride);
        const double *record = records + (size_t)ids[i] * s->stride;
        double value = term_value(s, ids[i], counts[i]);
        if (s->softmax)
            value = exp(s->steepness * value - largest);
        size += s->norm == 2 ? value * value : fabs(value);
        const double *log_odds = record + s->weighted + (s->top > 0);
        for (size_t k = 0; k < s->classes; k++)
            out[k] += value * log_odds[k];
    }
    double scale = s->length;
    if (s->norm) {
        size = (s->norm == 2 ? sqrt(size) : size) + s->pad;
        scale = size > 0 ? scale / size : 0;
    }
    for (size_t k = 0; k < s->classes; k++)
        out[k] = ((const double *)s->prior.buf)[k] + scale * out[k];
    return OK;
}

typedef struct {
    const Scorer *scorer;
    double *scores;
} Scoring;

static Status score_done(Workspace *ws, size_t index, void *context)
{
    Scoring *scoring = context;
    double *out = scoring->scores + index * scoring->scorer->classes;
    Status status = score_row(scoring->scorer, ws, ws->ids + ws->row, ws->counts + ws->row, ws->used - ws->row, out);
    ws->used = ws->row = 0;
    return status;
}

static double *scores_for(const Scorer *self, size_t n, size_t *bytes)
{
    if (n && self->classes > SIZE_MAX / sizeof(double) / n) {
        PyErr_NoMemory();
        return NULL;
    }
    *bytes = n * self->classes * sizeof(double);
    double *scores = calloc(*bytes ? *bytes : 1, 1);
    if (!scores)
        PyErr_NoMemory();
    return scores;
}

PyDoc_STRVAR(scorer_score_doc, "score(documents)\n--\n\nThe scores of a list of documents: float64, one row a document.");
static PyObject *scorer_score(PyObject *object, PyObject *documents)
{
    Scorer *self = (Scorer *)object;
    State *state = state_of_type(object);
    if (!is_list(documents))
        return NULL;
    if (!self->analyzer) {
        PyErr_SetString(PyExc_ValueError, "this Scorer has no analyzer: use score_rows");
        return NULL;
    }
    if (self->vocabulary && may_read(self->vocabulary) < 0)
        return NULL;
    size_t bytes;
    double *scores = scores_for(self, (size_t)PyList_Size(documents), &bytes);
    Workspace *ws = scores ? workspace_take(state) : NULL;
    if (!ws) {
        free(scores);
        return NULL;
    }
    ws->analyzer = self->analyzer;
    ws->table = self->vocabulary ? &self->vocabulary->table : NULL;
    ws->grow = false;
    ws->columns = self->n_features;
    ws->alternate_sign = self->alternate_sign;
    if (self->vocabulary)
        self->vocabulary->readers++;
    Scoring scoring = {self, scores};
    int failed = drive(ws, documents, score_done, &scoring) < 0;
    if (self->vocabulary)
        self->vocabulary->readers--;
    workspace_give_back(ws);
    if (failed) {
        free(scores);
        return NULL;
    }
    return block_of(state, scores, bytes);
}

static Status score_given_rows(const Scorer *self, Workspace *ws, const Py_buffer views[3], double *scores)
{
    const uint32_t *lengths = views[0].buf, *ids = views[1].buf;
    const int32_t *counts = views[2].buf;
    Status status = OK;
    for (size_t r = 0; status == OK && r < items_in(&views[0], 4); r++) {
        size_t n = lengths[r];
        if (reserve(&ws->ids, &ws->ids_room, n + 1, 4) != OK || reserve(&ws->counts, &ws->counts_room, n + 1, 4) != OK)
            return NO_MEMORY;
        if (n) {
            memcpy(ws->ids, ids, n * 4);
            memcpy(ws->counts, counts, n * 4);
        }
        status = score_row(self, ws, ws->ids, ws->counts, n, scores + r * self->classes);
        ids += n;
        counts += n;
    }
    return status;
}

PyDoc_STRVAR(scorer_score_rows_doc, "score_rows(lengths, ids, counts)\n--\n\nThe scores of rows as count() gives them.");
static PyObject *scorer_score_rows(PyObject *object, PyObject *args)
{
    Scorer *self = (Scorer *)object;
    State *state = state_of_type(object);
    PyObject *from[3];
    if (!PyArg_ParseTuple(args, "OOO:score_rows", &from[0], &from[1], &from[2]))
        return NULL;
    static const char *const names[3] = {"lengths", "ids", "counts"};
    Py_buffer views[3];
    int have = 0;
    while (have < 3 && get_items(from[have], &views[have], 4, false, names[have]) == 0)
        have++;
    PyObject *result = NULL;
    if (have == 3) {
        uint64_t total = 0;
        for (size_t r = 0; r < items_in(&views[0], 4); r++)
            total += ((const uint32_t *)views[0].buf)[r];
        size_t bytes;
        double *scores = NULL;
        Workspace *ws = NULL;
        if (total != items_in(&views[1], 4) || total != items_in(&views[2], 4))
            PyErr_SetString(PyExc_ValueError, "lengths, ids and counts don't belong together: give them as count() returned them");
        else if ((scores = scores_for(self, items_in(&views[0], 4), &bytes)))
            ws = workspace_take(state);
        if (ws) {
            Status status;
            Py_BEGIN_ALLOW_THREADS
            status = score_given_rows(self, ws, views, scores);
            Py_END_ALLOW_THREADS
            workspace_give_back(ws);
            if (status == OK) {
                result = block_of(state, scores, bytes);
                scores = NULL;
            } else
                raise_status(status);
        }
        free(scores);
    }
    while (have--)
        PyBuffer_Release(&views[have]);
    return result;
}

/* One of a few names, as its place among them; -1 with an exception. */
static int choose(const char *parameter, const char *got, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(got, names[i]))
            return i;
    PyErr_Format(PyExc_ValueError, "%s: '%s' is not one of the known names", parameter, got);
    return -1;
}

static int scorer_fill(Scorer *self, PyObject *records, PyObject *prior, PyObject *columns)
{
    if (get_items(prior, &self->prior, sizeof(double), false, "prior") < 0)
        return -1;
    self->has_prior = true;
    if (get_items(records, &self->records, sizeof(double), false, "records") < 0)
        return -1;
    self->has_records = true;
    self->classes = items_in(&self->prior, sizeof(double));
    self->stride = self->classes + self->weighted + (self->top > 0);
    if (!self->classes || items_in(&self->records, sizeof(double)) % self->stride) {
        PyErr_Format(PyExc_ValueError, "records must have %zu numbers a term (and prior one a class), got %zu", self->stride,
                     items_in(&self->records, sizeof(double)));
        return -1;
    }
    self->known = items_in(&self->records, sizeof(double)) / self->stride;
    if (columns != Py_None) {
        if (get_items(columns, &self->columns, sizeof(int32_t), false, "columns") < 0)
            return -1;
        self->has_columns = true;
        if (items_in(&self->columns, sizeof(int32_t)) < self->known) {
            PyErr_Format(PyExc_ValueError, "columns must have one number a term: %zu", self->known);
            return -1;
        }
    }
    for (int i = 0; i < 64; i++)
        self->logs[i] = log1p(i);
    return 0;
}

static PyObject *scorer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"analyzer", "vocabulary", "n_features", "records", "prior", "alternate_sign", "binary", "tf",
                            "weighted", "columns", "top", "steepness", "norm", "pad", "length", NULL};
    State *state = PyType_GetModuleState(type);
    PyObject *analyzer, *vocabulary, *records, *prior, *columns = Py_None, *steepness = Py_None;
    Py_ssize_t n_features, top = 0;
    int alternate_sign = 0, binary = 0, weighted = 0;
    const char *tf = "count", *norm = NULL;
    double pad = 0, length = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOnOO|$ppspOnOzdd:Scorer", names, &analyzer, &vocabulary, &n_features, &records,
                                     &prior, &alternate_sign, &binary, &tf, &weighted, &columns, &top, &steepness, &norm, &pad, &length))
        return NULL;
    if (analyzer != Py_None && !PyObject_TypeCheck(analyzer, state->analyzer_type))
        return PyErr_Format(PyExc_TypeError, "analyzer must be an Analyzer or None, got %R", (PyObject *)Py_TYPE(analyzer));
    if (vocabulary != Py_None && !PyObject_TypeCheck(vocabulary, state->vocabulary_type))
        return PyErr_Format(PyExc_TypeError, "vocabulary must be a Vocabulary or None, got %R", (PyObject *)Py_TYPE(vocabulary));
    if (n_features < (vocabulary == Py_None) || n_features > 0x7fffffff || top < 0)
        return PyErr_Format(PyExc_ValueError, "n_features must be between 1 and 2147483647 and top not negative, got %zd and %zd",
                            n_features, top);
    static const char *const tfs[] = {"count", "binary", "log"}, *const norms[] = {"none", "l1", "l2"};
    int which_tf = choose("tf", tf, tfs, 3), which_norm = norm ? choose("norm", norm, norms, 3) : 0;
    if (which_tf < 0 || which_norm < 0)
        return NULL;
    double steep = steepness == Py_None ? 0 : PyFloat_AsDouble(steepness);
    if (steep == -1.0 && PyErr_Occurred())
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Scorer *self = (Scorer *)allocate(type, 0);
    if (!self)
        return NULL;
    self->analyzer = analyzer == Py_None ? NULL : (Analyzer *)Py_NewRef(analyzer);
    self->vocabulary = vocabulary == Py_None ? NULL : (Vocabulary *)Py_NewRef(vocabulary);
    self->n_features = (uint32_t)n_features;
    self->alternate_sign = alternate_sign, self->binary = binary, self->weighted = weighted;
    self->tf = (Tf)which_tf, self->norm = which_norm, self->top = (size_t)top;
    self->softmax = steepness != Py_None, self->steepness = steep, self->pad = pad, self->length = length;
    if (scorer_fill(self, records, prior, columns) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void scorer_dealloc(PyObject *object)
{
    Scorer *self = (Scorer *)object;
    Py_XDECREF((PyObject *)self->analyzer);
    Py_XDECREF((PyObject *)self->vocabulary);
    if (self->has_records)
        PyBuffer_Release(&self->records);
    if (self->has_prior)
        PyBuffer_Release(&self->prior);
    if (self->has_columns)
        PyBuffer_Release(&self->columns);
    plain_dealloc(object);
}

static PyMethodDef scorer_methods[] = {{"score", scorer_score, METH_O, scorer_score_doc},
                                       {"score_rows", scorer_score_rows, METH_VARARGS, scorer_score_rows_doc},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot scorer_slots[] = {{Py_tp_doc, (void *)scorer_doc},
                                     {Py_tp_new, scorer_new},
                                     {Py_tp_dealloc, scorer_dealloc},
                                     {Py_tp_methods, scorer_methods},
                                     {0, NULL}};
static PyType_Spec scorer_spec = {
    .name = "surebayes.kernels._text.Scorer", .basicsize = sizeof(Scorer), .flags = Py_TPFLAGS_DEFAULT, .slots = scorer_slots};

/* ------------------------------------------------------------------------------------------------ HTML to visible text
 *
 * One pass over UTF-8, after the tokenizer of the HTML standard: tags, attributes, comments, raw text, character
 * references. Instead of a tree there is a stack of at most HTML_DEPTH open elements, enough to know whether text is
 * hidden. Each byte is looked at a bounded number of times. `_html_python.py` is the same thing in Python; keep them equal.
 */

enum { HTML_KEEP_HIDDEN = 1, HTML_ALT_TEXT = 2, HTML_LINK_TARGETS = 4 };
enum { HTML_DEPTH = 128, HTML_NAME = 16, HTML_STYLE = 1024 };
enum { HTML_SPACE = 1, HTML_BREAK = 2 };                       /* what is due before the next visible character */
enum { COLOUR_UNKNOWN = -1, COLOUR_UNSEEN = -2 };

/* what an element is, as far as text is concerned */
enum {
    EL_BLOCK = 1,        /* a line of its own; ends an open p */
    EL_CELL = 2,         /* a blank around it */
    EL_VOID = 4,         /* never has content */
    EL_RAW = 8,          /* content is no markup and never shown */
    EL_SHOWN_RAW = 16,   /* content is no markup, but shown */
    EL_RCDATA = 32,      /* content has character references but no tags */
    EL_HIDDEN = 64,      /* content isn't shown */
    EL_TABLE = 128,      /* table, and what nests by tables alone */
    EL_PAGE = 256,       /* html, head, body: never on the stack */
    EL_BREAK = 512,      /* ends a line */
    EL_LIST = 1024,      /* holds items */
    EL_FORMAT = 2048,    /* its end tag reaches over blocks */
};

/* elements that others close; all others are known by 100 + their place in the table, or 1000 + a hash of the name */
enum { ID_BODY = 1, ID_CAPTION, ID_DD, ID_DT, ID_FONT, ID_LI, ID_OPTION, ID_P, ID_TABLE, ID_TBODY, ID_TD, ID_TFOOT, ID_TH,
       ID_THEAD, ID_TR, ID_PLAINTEXT, ID_A };

typedef struct { char name[HTML_NAME]; int what, id; } html_element;

/* sorted by name */
static const html_element html_elements[] = {
    {"a", EL_FORMAT, ID_A}, {"address", EL_BLOCK, 0}, {"area", EL_VOID, 0}, {"article", EL_BLOCK, 0},
    {"aside", EL_BLOCK, 0}, {"b", EL_FORMAT, 0}, {"base", EL_VOID, 0}, {"big", EL_FORMAT, 0},
    {"blockquote", EL_BLOCK, 0}, {"body", EL_BREAK | EL_PAGE, ID_BODY}, {"br", EL_BREAK | EL_VOID, 0},
    {"caption", EL_BREAK | EL_TABLE, ID_CAPTION}, {"center", EL_BLOCK, 0}, {"code", EL_FORMAT, 0},
    {"col", EL_VOID, 0}, {"datalist", EL_HIDDEN, 0}, {"dd", EL_BLOCK, ID_DD}, {"details", EL_BLOCK, 0},
    {"dialog", EL_BLOCK, 0}, {"dir", EL_BLOCK | EL_LIST, 0}, {"div", EL_BLOCK, 0}, {"dl", EL_BLOCK | EL_LIST, 0},
    {"dt", EL_BLOCK, ID_DT}, {"em", EL_FORMAT, 0}, {"embed", EL_VOID, 0}, {"fieldset", EL_BLOCK, 0},
    {"figcaption", EL_BLOCK, 0}, {"figure", EL_BLOCK, 0}, {"font", EL_FORMAT, ID_FONT}, {"footer", EL_BLOCK, 0},
    {"form", EL_BLOCK, 0}, {"frame", EL_VOID, 0}, {"h1", EL_BLOCK, 0}, {"h2", EL_BLOCK, 0}, {"h3", EL_BLOCK, 0},
    {"h4", EL_BLOCK, 0}, {"h5", EL_BLOCK, 0}, {"h6", EL_BLOCK, 0}, {"head", EL_BREAK | EL_PAGE, 0},
    {"header", EL_BLOCK, 0}, {"hgroup", EL_BLOCK, 0}, {"hr", EL_BLOCK | EL_VOID, 0}, {"html", EL_BREAK | EL_PAGE, 0},
    {"i", EL_FORMAT, 0}, {"iframe", EL_RAW, 0}, {"img", EL_VOID, 0}, {"input", EL_VOID, 0}, {"legend", EL_BREAK, 0},
    {"li", EL_BLOCK, ID_LI}, {"link", EL_VOID, 0}, {"listing", EL_BLOCK, 0}, {"main", EL_BLOCK, 0},
    {"menu", EL_BLOCK | EL_LIST, 0}, {"meta", EL_VOID, 0}, {"nav", EL_BLOCK, 0}, {"noembed", EL_RAW, 0},
    {"noframes", EL_RAW, 0}, {"ol", EL_BLOCK | EL_LIST, 0}, {"optgroup", EL_BREAK, 0},
    {"option", EL_BREAK, ID_OPTION}, {"p", EL_BLOCK, ID_P}, {"param", EL_VOID, 0},
    {"plaintext", EL_BLOCK | EL_SHOWN_RAW, ID_PLAINTEXT}, {"pre", EL_BLOCK, 0}, {"s", EL_FORMAT, 0},
    {"script", EL_RAW, 0}, {"section", EL_BLOCK, 0}, {"small", EL_FORMAT, 0}, {"source", EL_VOID, 0},
    {"strike", EL_FORMAT, 0}, {"strong", EL_FORMAT, 0}, {"style", EL_RAW, 0}, {"summary", EL_BLOCK, 0},
    {"table", EL_BREAK | EL_TABLE, ID_TABLE}, {"tbody", EL_BREAK | EL_TABLE, ID_TBODY},
    {"td", EL_CELL | EL_TABLE, ID_TD}, {"template", EL_HIDDEN, 0}, {"textarea", EL_RCDATA, 0},
    {"tfoot", EL_BREAK | EL_TABLE, ID_TFOOT}, {"th", EL_CELL | EL_TABLE, ID_TH},
    {"thead", EL_BREAK | EL_TABLE, ID_THEAD}, {"title", EL_BREAK | EL_RCDATA | EL_HIDDEN, 0},
    {"tr", EL_BREAK | EL_TABLE, ID_TR}, {"track", EL_VOID, 0}, {"tt", EL_FORMAT, 0}, {"u", EL_FORMAT, 0},
    {"ul", EL_BLOCK | EL_LIST, 0}, {"wbr", EL_VOID, 0}, {"xmp", EL_BLOCK | EL_SHOWN_RAW, 0},
};

typedef struct { const char *name; int code; int bare; } html_reference;   /* bare: also without a semicolon */

/* sorted by name: those of HTML 4, and of HTML 5 the ones for ASCII and a few signs */
static const html_reference html_references[] = {
    {"AElig", 198, 1}, {"AMP", 38, 1}, {"Aacute", 193, 1}, {"Acirc", 194, 1}, {"Agrave", 192, 1}, {"Alpha", 913, 0},
    {"Aring", 197, 1}, {"Atilde", 195, 1}, {"Auml", 196, 1}, {"Beta", 914, 0}, {"COPY", 169, 1}, {"Ccedil", 199, 1},
    {"Chi", 935, 0}, {"Dagger", 8225, 0}, {"Delta", 916, 0}, {"ETH", 208, 1}, {"Eacute", 201, 1}, {"Ecirc", 202, 1},
    {"Egrave", 200, 1}, {"Epsilon", 917, 0}, {"Eta", 919, 0}, {"Euml", 203, 1}, {"GT", 62, 1}, {"Gamma", 915, 0},
    {"Hat", 94, 0}, {"Iacute", 205, 1}, {"Icirc", 206, 1}, {"Igrave", 204, 1}, {"Iota", 921, 0}, {"Iuml", 207, 1},
    {"Kappa", 922, 0}, {"LT", 60, 1}, {"Lambda", 923, 0}, {"Mu", 924, 0}, {"NewLine", 10, 0},
    {"NonBreakingSpace", 160, 0}, {"Ntilde", 209, 1}, {"Nu", 925, 0}, {"OElig", 338, 0}, {"Oacute", 211, 1},
    {"Ocirc", 212, 1}, {"Ograve", 210, 1}, {"Omega", 937, 0}, {"Omicron", 927, 0}, {"Oslash", 216, 1},
    {"Otilde", 213, 1}, {"Ouml", 214, 1}, {"Phi", 934, 0}, {"Pi", 928, 0}, {"Prime", 8243, 0}, {"Psi", 936, 0},
    {"QUOT", 34, 1}, {"REG", 174, 1}, {"Rho", 929, 0}, {"Scaron", 352, 0}, {"Sigma", 931, 0}, {"THORN", 222, 1},
    {"Tab", 9, 0}, {"Tau", 932, 0}, {"Theta", 920, 0}, {"Uacute", 218, 1}, {"Ucirc", 219, 1}, {"Ugrave", 217, 1},
    {"UnderBar", 95, 0}, {"Upsilon", 933, 0}, {"Uuml", 220, 1}, {"Xi", 926, 0}, {"Yacute", 221, 1}, {"Yuml", 376, 0},
    {"ZeroWidthSpace", 8203, 0}, {"Zeta", 918, 0}, {"aacute", 225, 1}, {"acirc", 226, 1}, {"acute", 180, 1},
    {"aelig", 230, 1}, {"agrave", 224, 1}, {"alefsym", 8501, 0}, {"alpha", 945, 0}, {"amp", 38, 1}, {"and", 8743, 0},
    {"ang", 8736, 0}, {"apos", 39, 0}, {"aring", 229, 1}, {"ast", 42, 0}, {"asymp", 8776, 0}, {"atilde", 227, 1},
    {"auml", 228, 1}, {"bdquo", 8222, 0}, {"beta", 946, 0}, {"brvbar", 166, 1}, {"bsol", 92, 0}, {"bull", 8226, 0},
    {"cap", 8745, 0}, {"ccedil", 231, 1}, {"cedil", 184, 1}, {"cent", 162, 1}, {"check", 10003, 0}, {"chi", 967, 0},
    {"circ", 710, 0}, {"clubs", 9827, 0}, {"colon", 58, 0}, {"comma", 44, 0}, {"commat", 64, 0}, {"cong", 8773, 0},
    {"copy", 169, 1}, {"crarr", 8629, 0}, {"cup", 8746, 0}, {"curren", 164, 1}, {"dArr", 8659, 0},
    {"dagger", 8224, 0}, {"darr", 8595, 0}, {"dash", 8208, 0}, {"deg", 176, 1}, {"delta", 948, 0},
    {"diams", 9830, 0}, {"divide", 247, 1}, {"dollar", 36, 0}, {"eacute", 233, 1}, {"ecirc", 234, 1},
    {"egrave", 232, 1}, {"empty", 8709, 0}, {"emsp", 8195, 0}, {"ensp", 8194, 0}, {"epsilon", 949, 0},
    {"equals", 61, 0}, {"equiv", 8801, 0}, {"eta", 951, 0}, {"eth", 240, 1}, {"euml", 235, 1}, {"euro", 8364, 0},
    {"excl", 33, 0}, {"exist", 8707, 0}, {"female", 9792, 0}, {"fnof", 402, 0}, {"forall", 8704, 0},
    {"frac12", 189, 1}, {"frac14", 188, 1}, {"frac34", 190, 1}, {"frasl", 8260, 0}, {"gamma", 947, 0},
    {"ge", 8805, 0}, {"grave", 96, 0}, {"gt", 62, 1}, {"hArr", 8660, 0}, {"harr", 8596, 0}, {"hearts", 9829, 0},
    {"hellip", 8230, 0}, {"horbar", 8213, 0}, {"hyphen", 8208, 0}, {"iacute", 237, 1}, {"icirc", 238, 1},
    {"iexcl", 161, 1}, {"igrave", 236, 1}, {"image", 8465, 0}, {"infin", 8734, 0}, {"int", 8747, 0},
    {"iota", 953, 0}, {"iquest", 191, 1}, {"isin", 8712, 0}, {"iuml", 239, 1}, {"kappa", 954, 0}, {"lArr", 8656, 0},
    {"lambda", 955, 0}, {"lang", 10216, 0}, {"laquo", 171, 1}, {"larr", 8592, 0}, {"lbrace", 123, 0},
    {"lbrack", 91, 0}, {"lceil", 8968, 0}, {"lcub", 123, 0}, {"ldquo", 8220, 0}, {"le", 8804, 0},
    {"lfloor", 8970, 0}, {"lowast", 8727, 0}, {"lowbar", 95, 0}, {"loz", 9674, 0}, {"lpar", 40, 0}, {"lrm", 8206, 0},
    {"lsaquo", 8249, 0}, {"lsqb", 91, 0}, {"lsquo", 8216, 0}, {"lt", 60, 1}, {"macr", 175, 1}, {"male", 9794, 0},
    {"mdash", 8212, 0}, {"micro", 181, 1}, {"middot", 183, 1}, {"minus", 8722, 0}, {"mu", 956, 0},
    {"nabla", 8711, 0}, {"nbsp", 160, 1}, {"ndash", 8211, 0}, {"ne", 8800, 0}, {"ni", 8715, 0}, {"not", 172, 1},
    {"notin", 8713, 0}, {"nsub", 8836, 0}, {"ntilde", 241, 1}, {"nu", 957, 0}, {"num", 35, 0}, {"oacute", 243, 1},
    {"ocirc", 244, 1}, {"oelig", 339, 0}, {"ograve", 242, 1}, {"oline", 8254, 0}, {"omega", 969, 0},
    {"omicron", 959, 0}, {"oplus", 8853, 0}, {"or", 8744, 0}, {"ordf", 170, 1}, {"ordm", 186, 1}, {"oslash", 248, 1},
    {"otilde", 245, 1}, {"otimes", 8855, 0}, {"ouml", 246, 1}, {"para", 182, 1}, {"part", 8706, 0},
    {"percnt", 37, 0}, {"period", 46, 0}, {"permil", 8240, 0}, {"perp", 8869, 0}, {"phi", 966, 0},
    {"phone", 9742, 0}, {"pi", 960, 0}, {"piv", 982, 0}, {"plus", 43, 0}, {"plusmn", 177, 1}, {"pound", 163, 1},
    {"prime", 8242, 0}, {"prod", 8719, 0}, {"prop", 8733, 0}, {"psi", 968, 0}, {"quest", 63, 0}, {"quot", 34, 1},
    {"rArr", 8658, 0}, {"radic", 8730, 0}, {"rang", 10217, 0}, {"raquo", 187, 1}, {"rarr", 8594, 0},
    {"rbrace", 125, 0}, {"rbrack", 93, 0}, {"rceil", 8969, 0}, {"rcub", 125, 0}, {"rdquo", 8221, 0},
    {"real", 8476, 0}, {"reg", 174, 1}, {"rfloor", 8971, 0}, {"rho", 961, 0}, {"rlm", 8207, 0}, {"rpar", 41, 0},
    {"rsaquo", 8250, 0}, {"rsqb", 93, 0}, {"rsquo", 8217, 0}, {"sbquo", 8218, 0}, {"scaron", 353, 0},
    {"sdot", 8901, 0}, {"sect", 167, 1}, {"semi", 59, 0}, {"shy", 173, 1}, {"sigma", 963, 0}, {"sigmaf", 962, 0},
    {"sim", 8764, 0}, {"sol", 47, 0}, {"spades", 9824, 0}, {"star", 9734, 0}, {"starf", 9733, 0}, {"sub", 8834, 0},
    {"sube", 8838, 0}, {"sum", 8721, 0}, {"sup", 8835, 0}, {"sup1", 185, 1}, {"sup2", 178, 1}, {"sup3", 179, 1},
    {"supe", 8839, 0}, {"szlig", 223, 1}, {"tau", 964, 0}, {"there4", 8756, 0}, {"theta", 952, 0},
    {"thetasym", 977, 0}, {"thinsp", 8201, 0}, {"thorn", 254, 1}, {"tilde", 732, 0}, {"times", 215, 1},
    {"trade", 8482, 0}, {"uArr", 8657, 0}, {"uacute", 250, 1}, {"uarr", 8593, 0}, {"ucirc", 251, 1},
    {"ugrave", 249, 1}, {"uml", 168, 1}, {"upsih", 978, 0}, {"upsilon", 965, 0}, {"uuml", 252, 1},
    {"verbar", 124, 0}, {"vert", 124, 0}, {"weierp", 8472, 0}, {"xi", 958, 0}, {"yacute", 253, 1}, {"yen", 165, 1},
    {"yuml", 255, 1}, {"zeta", 950, 0}, {"zwj", 8205, 0}, {"zwnj", 8204, 0},
};

/* what the bytes 0x80 to 0x9F mean in numeric references: Windows-1252 */
static const unsigned short html_c1[32] = {
    0x20AC, 0x81, 0x201A, 0x192, 0x201E, 0x2026, 0x2020, 0x2021, 0x2C6, 0x2030, 0x160, 0x2039, 0x152, 0x8D, 0x17D, 0x8F,
    0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x2DC, 0x2122, 0x161, 0x203A, 0x153, 0x9D, 0x17E, 0x178,
};

typedef struct { const char *name; int value; } html_colour;

static const html_colour html_colours[] = {
    {"aqua", 0x00FFFF}, {"black", 0x000000}, {"blue", 0x0000FF}, {"cyan", 0x00FFFF}, {"fuchsia", 0xFF00FF},
    {"gray", 0x808080}, {"green", 0x008000}, {"grey", 0x808080}, {"ivory", 0xFFFFF0}, {"lime", 0x00FF00},
    {"magenta", 0xFF00FF}, {"maroon", 0x800000}, {"navy", 0x000080}, {"olive", 0x808000}, {"orange", 0xFFA500},
    {"purple", 0x800080}, {"red", 0xFF0000}, {"silver", 0xC0C0C0}, {"snow", 0xFFFAFA}, {"teal", 0x008080},
    {"white", 0xFFFFFF}, {"whitesmoke", 0xF5F5F5}, {"yellow", 0xFFFF00},
};

typedef struct { int gone, unseen, zero, letters, paper; } html_look;     /* display, visibility, size, two colours */
typedef struct { int what; html_look before; } html_open;
typedef struct { const unsigned char *at; Py_ssize_t size; } html_span;   /* at NULL: there is none */

typedef struct {
    const unsigned char *at, *end;
    unsigned char *out;
    Py_ssize_t size, room;
    int due, flags, shown, depth;
    html_look look;
    int id[HTML_DEPTH];                                                    /* of the open elements; and more of them: */
    html_open open[HTML_DEPTH];
    unsigned char count[256];                                              /* how many are open, by the low byte of the id */
} html_scan;

typedef struct {
    int id, what;
    html_span style, colour, paper, text, image, size, alt, href, src;
    int hidden;
} html_tag;

/* what a byte does: 1 white space, 2 ends a tag's name, 4 ends an attribute's name, 8 needs care in text */
static const unsigned char html_byte[256] = {
    8, 8, 8, 8, 8, 8, 8, 8, 8, 15, 15, 8, 15, 15, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    [' '] = 15, ['&'] = 8, ['/'] = 6, ['>'] = 6, ['='] = 4, [0xC2] = 8,
};

static int
html_is_space(unsigned char c)
{
    return html_byte[c] & 1;
}

static int
html_is_letter(unsigned char c)
{
    return (unsigned)((c | 32) - 'a') < 26;
}

static int
html_is_digit(unsigned char c)
{
    return (unsigned)(c - '0') < 10;
}

static unsigned char
html_lower(unsigned char c)
{
    return (unsigned)(c - 'A') < 26 ? (unsigned char)(c | 32) : c;
}

/* The first 15 bytes of an element's name in lower case, as two numbers: bytes written one by one and read as eight are slow. */
typedef struct { uint64_t first, second; } html_key;

static inline void
html_add_letter(html_key *key, Py_ssize_t i, unsigned char c)
{
    if (i < 8) key->first |= (uint64_t)html_lower(c) << 8 * i;
    else if (i < HTML_NAME - 1) key->second |= (uint64_t)html_lower(c) << 8 * (i - 8);
}

/* Elements by a hash of their keys: 1 + the place in html_elements, 0 for none. A search in the sorted table takes seven branches
 * that nothing predicts, a quarter of the time of a page full of tags. */
enum { HTML_SLOTS = 512, HTML_ELEMENTS = sizeof html_elements / sizeof *html_elements };
static uint8_t html_slots[HTML_SLOTS];
static html_key html_keys[HTML_ELEMENTS];

static inline unsigned
html_slot(html_key key)
{
    return (unsigned)(((key.first ^ key.second * 31) * UINT64_C(0x9E3779B97F4A7C15)) >> 55);
}

static void
html_fill_slots(void)
{
    static bool filled; /* once a process */
    for (int k = 0; k < HTML_ELEMENTS && !filled; k++) {
        html_key key = {0, 0};
        for (int i = 0; html_elements[k].name[i]; i++) html_add_letter(&key, i, (unsigned char)html_elements[k].name[i]);
        unsigned slot = html_slot(key);
        while (html_slots[slot]) slot = (slot + 1) % HTML_SLOTS;
        html_keys[k] = key;
        html_slots[slot] = (uint8_t)(k + 1);
    }
    filled = true;
}

static void
html_find_element(html_span name, html_key key, html_tag *tag)
{
    for (unsigned slot = html_slot(key); html_slots[slot]; slot = (slot + 1) % HTML_SLOTS) {
        int k = html_slots[slot] - 1;
        if (key.first != html_keys[k].first || key.second != html_keys[k].second) continue;
        tag->what = html_elements[k].what;
        tag->id = html_elements[k].id ? html_elements[k].id : 100 + k;
        return;
    }
    Py_ssize_t n = name.size < HTML_NAME - 1 ? name.size : HTML_NAME - 1;
    while (n && !name.at[n - 1]) n--;
    unsigned hash = 0;
    for (Py_ssize_t i = 0; i < n; i++) hash = (hash * 31 + html_lower(name.at[i])) & 0xFFFFFF;
    tag->what = 0;
    tag->id = 1000 + (int)hash;
}

/* -- output. It never exceeds the input: every reference is as long as what it stands for, and a break or blank is due
   only after a byte that was not written. The check is there all the same. */

static void
html_put(html_scan *s, const unsigned char *from, Py_ssize_t size)
{
    if (s->due) {
        if (s->size && s->size < s->room) s->out[s->size++] = s->due == HTML_BREAK ? '\n' : ' ';
        s->due = 0;
    }
    if (size > s->room - s->size) size = s->room - s->size;
    if (size > 0) memcpy(s->out + s->size, from, (size_t)size);
    s->size += size;
}

static void
html_put_code(html_scan *s, int code)
{
    unsigned char b[4];
    int n;
    if (code < 0x80) { b[0] = (unsigned char)code; n = 1; }
    else if (code < 0x800) { b[0] = (unsigned char)(0xC0 | code >> 6); b[1] = (unsigned char)(0x80 | (code & 63)); n = 2; }
    else if (code < 0x10000) {
        b[0] = (unsigned char)(0xE0 | code >> 12); b[1] = (unsigned char)(0x80 | (code >> 6 & 63));
        b[2] = (unsigned char)(0x80 | (code & 63)); n = 3;
    } else {
        b[0] = (unsigned char)(0xF0 | code >> 18); b[1] = (unsigned char)(0x80 | (code >> 12 & 63));
        b[2] = (unsigned char)(0x80 | (code >> 6 & 63)); b[3] = (unsigned char)(0x80 | (code & 63)); n = 4;
    }
    html_put(s, b, n);
}

static void
html_ask(html_scan *s, int due)
{
    if (due > s->due) s->due = due;
}

/* -- character references */

static const html_reference *
html_find_reference(const unsigned char *name, Py_ssize_t size)
{
    int low = 0, high = (int)(sizeof html_references / sizeof *html_references);
    while (low < high) {
        int middle = (low + high) / 2;
        const char *other = html_references[middle].name;
        int order = strncmp((const char *)name, other, (size_t)size);
        if (order == 0 && other[size]) order = -1;
        if (order == 0) return &html_references[middle];
        if (order < 0) high = middle; else low = middle + 1;
    }
    return NULL;
}

/* The character that a reference at p (which is '&') stands for, and where it ends; -1 if it is none. */
static int
html_reference_at(const unsigned char *p, const unsigned char *end, int in_attribute, const unsigned char **stop)
{
    const unsigned char *q = p + 1;
    if (q < end && *q == '#') {
        int hex = q + 1 < end && (q[1] | 32) == 'x', digits = 0;
        long code = 0;
        for (q += 1 + hex; q < end; q++, digits++) {
            int d = html_is_digit(*q) ? *q - '0' : hex && (unsigned)((*q | 32) - 'a') < 6 ? (*q | 32) - 'a' + 10 : -1;
            if (d < 0) break;
            if (code < 0x110000) code = code * (hex ? 16 : 10) + d;
        }
        if (!digits) return -1;
        *stop = q + (q < end && *q == ';');
        if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0xFFFD;
        return code >= 0x80 && code < 0xA0 ? html_c1[code - 0x80] : (int)code;
    }
    while (q < end && q - p <= 32 && (html_is_letter(*q) || html_is_digit(*q))) q++;
    const html_reference *r;
    if (q < end && *q == ';' && q > p + 1 && (r = html_find_reference(p + 1, q - p - 1))) {
        *stop = q + 1;
        return r->code;
    }
    for (Py_ssize_t size = q - p - 1 < 6 ? q - p - 1 : 6; size >= 2; size--) {     /* the longest bare name has six letters */
        if ((r = html_find_reference(p + 1, size)) && r->bare) {
            const unsigned char *after = p + 1 + size;
            if (in_attribute && after < end && (*after == '=' || html_is_letter(*after) || html_is_digit(*after))) return -1;
            *stop = after;
            return r->code;
        }
    }
    return -1;
}

/* Write text: white space folded, references resolved unless raw. */
static void
html_write(html_scan *s, const unsigned char *p, const unsigned char *end, int raw, int in_attribute)
{
    while (p < end) {
        const unsigned char *run = p;
        for (;;) {
#if defined(__SSE2__)
            while (end - p >= 16) {
                __m128i block = _mm_loadu_si128((const __m128i *)p), blank = _mm_set1_epi8(' ');
                __m128i care = _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('&')), _mm_cmpeq_epi8(block, _mm_set1_epi8((char)0xC2)));
                care = _mm_or_si128(care, _mm_cmpeq_epi8(_mm_min_epu8(block, blank), block));
                unsigned stops = (unsigned)_mm_movemask_epi8(care), blanks = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, blank));
                stops &= ~(blanks & ~(stops >> 1) & (p > run ? 0x7fffu : 0x7ffeu));      /* one blank between words stays */
                if (stops) {
                    p += lowest_bit(stops);
                    break;
                }
                p += 16;
            }
#endif
            while (p < end && !(html_byte[*p] & 8)) p++;
            if (p > run && end - p > 1 && *p == ' ' && !(html_byte[p[1]] & 8)) p += 2;
            else break;
        }
        if (p > run) html_put(s, run, p - run);
        if (p >= end) break;
        if (*p == '&' && !raw) {
            const unsigned char *stop;
            int code = html_reference_at(p, end, in_attribute, &stop);
            if (code < 0) html_put(s, p++, 1);
            else {
                if (code == 0xA0 || (code < 128 && html_is_space((unsigned char)code))) html_ask(s, HTML_SPACE);
                else html_put_code(s, code);
                p = stop;
            }
        }
        else if (*p == 0xC2 && end - p > 1 && p[1] == 0xA0) { html_ask(s, HTML_SPACE); p += 2; }
        else if (html_is_space(*p)) { html_ask(s, HTML_SPACE); p++; }
        else if (*p == 0) p++;
        else html_put(s, p++, 1);
    }
}

/* -- style: is this text to be seen? */

static html_span
html_trim(html_span v)
{
    while (v.size && html_is_space(v.at[0])) { v.at++; v.size--; }
    while (v.size && html_is_space(v.at[v.size - 1])) v.size--;
    return v;
}

static int
html_is(html_span v, const char *word)
{
    return (size_t)v.size == strlen(word) && memcmp(v.at, word, (size_t)v.size) == 0;
}

static int
html_starts(html_span v, const char *word)
{
    size_t n = strlen(word);
    return (size_t)v.size >= n && memcmp(v.at, word, n) == 0;
}

static int
html_hex(unsigned char c)
{
    return html_is_digit(c) ? c - '0' : (unsigned)((c | 32) - 'a') < 6 ? (c | 32) - 'a' + 10 : -1;
}

/* A colour of CSS or of an attribute, in lower case: #rgb, #rrggbb, rrggbb, rgb(r,g,b), a name. */
static int
html_read_colour(html_span v)
{
    v = html_trim(v);
    if (html_is(v, "transparent")) return COLOUR_UNSEEN;
    if (html_starts(v, "rgb(") || html_starts(v, "rgba(")) {
        int colour = 0, parts = 0;
        const unsigned char *p = v.at + 4, *end = v.at + v.size;
        if (p[-1] != '(') p++;
        while (p < end && parts < 3) {
            int n = 0, digits = 0;
            while (p < end && html_is_space(*p)) p++;
            for (; p < end && html_is_digit(*p); p++, digits++) if (n < 1000) n = n * 10 + *p - '0';
            while (p < end && html_is_space(*p)) p++;
            if (!digits || p >= end || (*p != ',' && *p != ')')) return COLOUR_UNKNOWN;
            colour = colour << 8 | (n > 255 ? 255 : n);
            parts++; p++;
        }
        return parts == 3 ? colour : COLOUR_UNKNOWN;
    }
    Py_ssize_t hash = v.size && v.at[0] == '#', digits = v.size - hash;
    if (digits == 6 || (hash && (digits == 3 || digits == 4 || digits == 8))) {
        int colour = 0, wide = digits >= 6, i;
        for (i = 0; i < (wide ? 6 : 3); i++) {
            int d = html_hex(v.at[hash + i]);
            if (d < 0) break;
            colour = wide ? colour << 4 | d : colour << 8 | d << 4 | d;
        }
        if (i == (wide ? 6 : 3)) return colour;
    }
    for (size_t i = 0; i < sizeof html_colours / sizeof *html_colours; i++)
        if (html_is(v, html_colours[i].name)) return html_colours[i].value;
    return COLOUR_UNKNOWN;
}

/* 1: a length of nothing, 2: of something, 3: of something relative to the parent's, 0: no number */
static int
html_length(html_span v)
{
    const unsigned char *p = v.at, *end = v.at + v.size;
    int digits = 0, whole = 0, part = 0;
    for (; p < end && html_is_digit(*p); p++, digits++) whole |= *p != '0';
    if (p < end && *p == '.') for (p++; p < end && html_is_digit(*p); p++, digits++) part |= *p != '0';
    if (!digits) return 0;
    if (!whole && !part) return 1;
    html_span unit = {p, 0};
    while (p + unit.size < end && (html_is_letter(p[unit.size]) || p[unit.size] == '%')) unit.size++;
    if (html_is(unit, "em") || html_is(unit, "%") || html_is(unit, "ex")) return 3;
    return whole ? 2 : html_is(unit, "px") || html_is(unit, "pt") || !unit.size ? 1 : 2;
}

static void
html_font_size(html_look *look, html_span v)
{
    int length = html_length(v);
    if (length == 1) look->zero = 1;
    else if (length == 2 || (length == 0 && !html_is(v, "inherit"))) look->zero = 0;
}

/* Copy a style to a buffer: lower case, references resolved, no comments. */
static Py_ssize_t
html_plain_style(html_span v, unsigned char *to)
{
    const unsigned char *p = v.at, *end = v.at + (v.size < HTML_STYLE ? v.size : HTML_STYLE), *stop;
    Py_ssize_t n = 0;
    int comment = 0;
    while (p < end) {
        int code = *p == '&' ? html_reference_at(p, end, 1, &stop) : -1;
        if (code >= 0) p = stop; else code = *p++;
        unsigned char c = code < 128 ? html_lower((unsigned char)code) : '?';
        if (comment) {
            if (c == '/' && comment == 2) comment = 0; else comment = c == '*' ? 2 : 1;
        }
        else if (c == '*' && n && to[n - 1] == '/') { n--; comment = 1; }
        else to[n++] = c;
    }
    return n;
}

static void
html_apply_style(html_look *look, html_span style, int *displayed)
{
    unsigned char plain[HTML_STYLE];
    html_span rest = {plain, html_plain_style(style, plain)};
    int clipped = 0, flat = 0, clear = 0, gone = -1;
    while (rest.size) {
        const unsigned char *semicolon = memchr(rest.at, ';', (size_t)rest.size);
        html_span one = {rest.at, semicolon ? semicolon - rest.at : rest.size};
        rest.at += one.size + (semicolon != NULL);
        rest.size -= one.size + (semicolon != NULL);
        const unsigned char *colon = one.size ? memchr(one.at, ':', (size_t)one.size) : NULL;
        if (!colon) continue;
        html_span name = html_trim((html_span){one.at, colon - one.at});
        html_span value = html_trim((html_span){colon + 1, one.at + one.size - colon - 1});
        const unsigned char *bang = value.size ? memchr(value.at, '!', (size_t)value.size) : NULL;
        if (bang) value = html_trim((html_span){value.at, bang - value.at});
        if (html_is(name, "display")) gone = html_is(value, "none");
        else if (html_is(name, "visibility")) {
            if (html_is(value, "hidden") || html_is(value, "collapse")) look->unseen = 1;
            else if (html_is(value, "visible")) look->unseen = 0;
        }
        else if (html_is(name, "font-size")) html_font_size(look, value);
        else if (html_is(name, "font")) {
            html_span word = value;
            while (word.size && !html_is_digit(word.at[0]) && word.at[0] != '.') { word.at++; word.size--; }
            if (word.size) html_font_size(look, word);
        }
        else if (html_is(name, "color")) look->letters = html_read_colour(value);
        else if (html_is(name, "background-color") || html_is(name, "background")) {
            Py_ssize_t n = 0;
            int inside = 0;
            while (n < value.size && (inside || !html_is_space(value.at[n]))) {
                inside = value.at[n] == '(' ? 1 : value.at[n] == ')' ? 0 : inside;
                n++;
            }
            html_span first = {value.at, n};
            if (!html_is(first, "none") && !html_is(first, "transparent") && !html_is(first, "inherit"))
                look->paper = n < value.size ? COLOUR_UNKNOWN : html_read_colour(first);
        }
        else if (html_is(name, "opacity")) clear = html_length(value) == 1;
        else if (html_is(name, "overflow")) clipped = html_is(value, "hidden");
        else if (html_is(name, "max-height") || html_is(name, "height") || html_is(name, "max-width") || html_is(name, "width"))
            flat |= html_length(value) == 1;
    }
    if (gone == 1 || clear || (clipped && flat)) look->gone = 1;
    *displayed = gone == 0;
}

static void
html_judge(html_scan *s)
{
    const html_look *k = &s->look;
    int same = k->letters == COLOUR_UNSEEN;
    if (k->letters >= 0 && k->paper >= 0) {
        same = 1;
        for (int shift = 0; shift < 24; shift += 8) {
            int d = (k->letters >> shift & 255) - (k->paper >> shift & 255);
            if (d > 15 || d < -15) same = 0;
        }
    }
    s->shown = s->flags & HTML_KEEP_HIDDEN || !(k->gone || k->unseen || k->zero || same);
}

static int
html_attribute_colour(html_span v)
{
    unsigned char word[32];
    html_span copy = {word, 0};
    v = html_trim(v);
    for (; copy.size < v.size && copy.size < 32; copy.size++) word[copy.size] = html_lower(v.at[copy.size]);
    return html_read_colour(copy);
}

static void
html_apply(html_look *look, const html_tag *tag)
{
    int displayed = 0;
    if (tag->paper.at) look->paper = html_attribute_colour(tag->paper);
    if (tag->image.at) look->paper = COLOUR_UNKNOWN;
    if (tag->text.at && tag->id == ID_BODY) look->letters = html_attribute_colour(tag->text);
    if (tag->colour.at && tag->id == ID_FONT) look->letters = html_attribute_colour(tag->colour);
    if (tag->size.at && tag->id == ID_FONT) look->zero = 0;
    if (tag->href.at && tag->id == ID_A) look->letters = COLOUR_UNKNOWN;       /* links have a colour of their own */
    if (tag->style.at) html_apply_style(look, tag->style, &displayed);
    if ((tag->hidden && !displayed) || tag->what & EL_HIDDEN) look->gone = 1;
}

/* -- the stack of open elements */

/* Close the topmost open element of that name, unless a table or a `wall` is in between. */
static void
html_close(html_scan *s, int id, int wall)
{
    if (!s->count[id & 255]) return;
    for (int i = s->depth - 1; i >= 0; i--) {
        if (s->id[i] == id) {
            s->look = s->open[i].before;
            while (s->depth > i) s->count[s->id[--s->depth] & 255]--;
            html_judge(s);
            return;
        }
        if (s->id[i] == ID_TABLE || s->open[i].what & wall) return;
    }
}

/* Close what a start tag closes that was left open. */
static void
html_close_implied(html_scan *s, const html_tag *tag)
{
    int id = tag->id, row = id == ID_TR, section = id == ID_TBODY || id == ID_THEAD || id == ID_TFOOT || id == ID_CAPTION;
    if (tag->what & EL_BLOCK) html_close(s, ID_P, EL_TABLE);
    if (id == ID_LI) html_close(s, ID_LI, EL_TABLE | EL_LIST);
    else if (id == ID_DT || id == ID_DD) {
        html_close(s, ID_DT, EL_TABLE | EL_LIST);
        html_close(s, ID_DD, EL_TABLE | EL_LIST);
    }
    else if (id == ID_OPTION) html_close(s, ID_OPTION, EL_TABLE | EL_BLOCK);
    if (section) {
        html_close(s, ID_CAPTION, 0);
        html_close(s, ID_TBODY, 0);
        html_close(s, ID_THEAD, 0);
        html_close(s, ID_TFOOT, 0);
    }
    if (section || row) html_close(s, ID_TR, 0);
    if (section || row || id == ID_TD || id == ID_TH) {
        html_close(s, ID_TD, 0);
        html_close(s, ID_TH, 0);
    }
}

static void
html_start(html_scan *s, const html_tag *tag)
{
    html_close_implied(s, tag);
    html_look before = s->look;
    html_apply(&s->look, tag);
    if (!(tag->what & (EL_PAGE | EL_VOID))) {
        if (s->depth < HTML_DEPTH) {
            s->id[s->depth] = tag->id;
            s->count[tag->id & 255]++;
            s->open[s->depth++] = (html_open){tag->what, before};
        }
        else s->look = before;                 /* too deep to know where it ends */
    }
    html_judge(s);
}

static void
html_end(html_scan *s, const html_tag *tag)
{
    if (tag->what & EL_TABLE) html_close(s, tag->id, 0);
    else html_close(s, tag->id, tag->what & (EL_BLOCK | EL_FORMAT) ? EL_TABLE : EL_TABLE | EL_BLOCK);
}

static void
html_boundary(html_scan *s, int what)
{
    if (what & (EL_BLOCK | EL_BREAK)) html_ask(s, HTML_BREAK);
    else if (what & EL_CELL) html_ask(s, HTML_SPACE);
}

/* -- tags */

static inline int
html_is_name(html_span name, const char *word, Py_ssize_t size)
{
    if (name.size != size) return 0;
    for (Py_ssize_t i = 0; i < size; i++)
        if (html_lower(name.at[i]) != (unsigned char)word[i]) return 0;
    return 1;
}

static void
html_keep_attribute(html_tag *tag, html_span name, html_span value)
{
    html_span *to = NULL;
    switch (name.at[0] | 32) {
    case 's':
        to = html_is_name(name, "style", 5) ? &tag->style : html_is_name(name, "size", 4) ? &tag->size
             : html_is_name(name, "src", 3) ? &tag->src : NULL;
        break;
    case 'c': to = html_is_name(name, "color", 5) ? &tag->colour : NULL; break;
    case 'b': to = html_is_name(name, "bgcolor", 7) ? &tag->paper : html_is_name(name, "background", 10) ? &tag->image : NULL; break;
    case 't': to = html_is_name(name, "text", 4) ? &tag->text : NULL; break;
    case 'a': to = html_is_name(name, "alt", 3) ? &tag->alt : NULL; break;
    case 'h':
        if (html_is_name(name, "href", 4)) to = &tag->href;
        else if (html_is_name(name, "hidden", 6)) tag->hidden = 1;
        break;
    }
    if (to && !to->at) *to = value;            /* the first of that name counts */
}

/* Read attributes up to the end of the tag; 0 if there is no end. */
static int
html_attributes(html_scan *s, html_tag *tag)
{
    const unsigned char *p = s->at, *end = s->end;
    for (;;) {
        while (p < end && (html_is_space(*p) || *p == '/')) p++;
        if (p >= end) break;
        if (*p == '>') { s->at = p + 1; return 1; }
        html_span name = {p, 0}, value = {(const unsigned char *)"", 0};
        p++;                                   /* an equals sign here is part of the name */
        while (p < end && !(html_byte[*p] & 4)) p++;
        name.size = p - name.at;
        while (p < end && html_is_space(*p)) p++;
        if (p < end && *p == '=') {
            p++;
            while (p < end && html_is_space(*p)) p++;
            if (p < end && (*p == '"' || *p == '\'')) {
                const unsigned char *close = memchr(p + 1, *p, (size_t)(end - p - 1));
                if (!close) break;
                value = (html_span){p + 1, close - p - 1};
                p = close + 1;
            }
            else {
                value.at = p;
                while (p < end && !html_is_space(*p) && *p != '>') p++;
                value.size = p - value.at;
            }
        }
        html_keep_attribute(tag, name, value);
    }
    s->at = end;
    return 0;
}

static const unsigned char *
html_find_end_tag(html_scan *s, html_span name)
{
    const unsigned char *p = s->at;
    while (s->end - p >= name.size + 2 && (p = memchr(p, '<', (size_t)(s->end - p - name.size - 1)))) {
        if (p[1] == '/') {
            Py_ssize_t i = 0;
            while (i < name.size && html_lower(p[2 + i]) == html_lower(name.at[i])) i++;
            const unsigned char *after = p + 2 + name.size;
            if (i == name.size && (after == s->end || html_is_space(*after) || *after == '/' || *after == '>')) return p;
        }
        p++;
    }
    return s->end;
}

static void
html_write_attribute(html_scan *s, html_span value)
{
    if (!value.at || !s->shown) return;
    html_ask(s, HTML_SPACE);
    html_write(s, value.at, value.at + value.size, 0, 1);
    html_ask(s, HTML_SPACE);
}

static void
html_read_tag(html_scan *s)
{
    int closing = s->at[1] == '/';
    html_tag tag;
    tag.style.at = tag.colour.at = tag.paper.at = tag.text.at = tag.image.at = tag.size.at = NULL;     /* memset is slow */
    tag.alt.at = tag.href.at = tag.src.at = NULL;
    tag.hidden = 0;
    html_span name = {s->at + 1 + closing, 0};
    html_key key = {0, 0};
    while (name.at + name.size < s->end && !(html_byte[name.at[name.size]] & 2)) {
        html_add_letter(&key, name.size, name.at[name.size]);
        name.size++;
    }
    s->at = name.at + name.size;
    html_find_element(name, key, &tag);
    if (!html_attributes(s, &tag)) return;
    html_boundary(s, tag.what);
    if (closing) { html_end(s, &tag); return; }
    html_start(s, &tag);
    if (s->flags & HTML_ALT_TEXT) html_write_attribute(s, tag.alt);
    if (s->flags & HTML_LINK_TARGETS) { html_write_attribute(s, tag.href); html_write_attribute(s, tag.src); }
    if (tag.what & (EL_RAW | EL_SHOWN_RAW | EL_RCDATA)) {
        const unsigned char *stop = tag.id == ID_PLAINTEXT ? s->end : html_find_end_tag(s, name);
        if (!(tag.what & EL_RAW) && s->shown) html_write(s, s->at, stop, tag.what & EL_SHOWN_RAW, 0);
        s->at = stop;
    }
}

/* -- everything else that starts with < */

static void
html_skip_to_bracket(html_scan *s)
{
    const unsigned char *p = memchr(s->at, '>', (size_t)(s->end - s->at));
    s->at = p ? p + 1 : s->end;
}

static void
html_skip_comment(html_scan *s)
{
    const unsigned char *p = s->at + 4, *end = s->end;
    if (p < end && *p == '>') { s->at = p + 1; return; }
    if (end - p > 1 && p[0] == '-' && p[1] == '>') { s->at = p + 2; return; }
    while (end - p > 2 && (p = memchr(p, '-', (size_t)(end - p - 2)))) {
        if (p[1] == '-' && p[2] == '>') { s->at = p + 3; return; }
        if (p[1] == '-' && p[2] == '!' && end - p > 3 && p[3] == '>') { s->at = p + 4; return; }
        p++;
    }
    s->at = end;
}

static void
html_run(html_scan *s)
{
    html_judge(s);
    while (s->at < s->end) {
        const unsigned char *p = memchr(s->at, '<', (size_t)(s->end - s->at));
        if (!p) p = s->end;
        if (s->shown && p > s->at) html_write(s, s->at, p, 0, 0);
        s->at = p;
        if (p == s->end) break;
        unsigned char next = s->end - p > 1 ? p[1] : 0, third = s->end - p > 2 ? p[2] : 0;
        if (html_is_letter(next) || (next == '/' && html_is_letter(third))) html_read_tag(s);
        else if (next == '!' && s->end - p > 3 && p[2] == '-' && p[3] == '-') html_skip_comment(s);
        else if (next == '!' || next == '?' || (next == '/' && s->end - p > 2)) html_skip_to_bracket(s);
        else {
            if (s->shown) html_put(s, p, 1);
            s->at = p + 1;
        }
    }
}

PyDoc_STRVAR(html_text_doc,
"html_text(html, flags=0, /)\n--\n\n"
"The visible text of HTML. Flags: 1 keeps hidden text, 2 adds alt texts, 4 adds link targets.");

/* Write the visible text of HTML in UTF-8 to `out`, which has room for size + 16; how much it is, -1 without memory. */
static Py_ssize_t
html_visible(const unsigned char *data, Py_ssize_t size, int flags, unsigned char *out)
{
    html_scan *s = PyMem_Malloc(sizeof *s);
    if (!s) return -1;
    s->at = data;
    s->end = data + size;
    s->out = out;
    s->size = 0;
    s->room = size + 16;
    s->due = s->depth = 0;
    s->flags = flags;
    s->look = (html_look){.letters = COLOUR_UNKNOWN, .paper = 0xFFFFFF};
    memset(s->count, 0, sizeof s->count);
    if (size > 4096) {
        Py_BEGIN_ALLOW_THREADS
        html_run(s);
        Py_END_ALLOW_THREADS
    }
    else html_run(s);
    size = s->size;
    PyMem_Free(s);
    return size;
}

static PyObject *
html_text(PyObject *module, PyObject *args)
{
    PyObject *html, *text = NULL;
    Py_ssize_t size;
    int flags = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "U|i:html_text", &html, &flags)) return NULL;
    const char *data = PyUnicode_AsUTF8AndSize(html, &size);
    if (!data) return NULL;
    unsigned char *out = PyMem_Malloc((size_t)size + 16);
    size = out ? html_visible((const unsigned char *)data, size, flags, out) : -1;
    if (size < 0) PyErr_NoMemory();
    else text = PyUnicode_DecodeUTF8((const char *)out, size, "replace");
    PyMem_Free(out);
    return text;
}

/* ------------------------------------------------------------------------------------------------ mail */

enum { MAIL_FIELDS = 5 };
static const struct { const char *name; Py_ssize_t size; } mail_fields[MAIL_FIELDS] = {
    {"content-type", 12}, {"content-transfer-encoding", 25}, {"content-disposition", 19}, {"subject", 7}, {"message-id", 10},
};

static int
mail_field_number(const unsigned char *name, Py_ssize_t size)
{
    for (int k = 0; k < MAIL_FIELDS; k++) {
        if (mail_fields[k].size != size) continue;
        Py_ssize_t i = 0;
        while (i < size && html_lower(name[i]) == (unsigned char)mail_fields[k].name[i]) i++;
        if (i == size) return k;
    }
    return -1;
}

typedef struct {
    const unsigned char *end, *body;           /* where the header block ends, where the body starts */
    Py_ssize_t count, longest;
    html_span value[MAIL_FIELDS];              /* of the first field of each name; at NULL: there is none */
} MailHead;

static void
scan_head(const unsigned char *line, const unsigned char *stop, MailHead *head)
{
    const html_span none = {NULL, 0};
    html_span open = none;                     /* the value of the field that continuation lines belong to */
    int number = -1;
    head->count = head->longest = 0;
    for (int k = 0; k < MAIL_FIELDS; k++) head->value[k] = none;
    for (;;) {
        const unsigned char *next = line < stop ? memchr(line, '\n', (size_t)(stop - line)) : NULL;
        const unsigned char *line_end = next ? next : stop;
        int blank = line == line_end || (*line == '\r' && line_end - line == 1);
        int more = !blank && (*line == ' ' || *line == '\t');
        if (more && open.at) open.size = line_end - open.at;
        if (!more && open.at) {
            if (open.size > head->longest) head->longest = open.size;
            if (number >= 0 && !head->value[number].at) head->value[number] = open;
            open = none;
        }
        head->end = line;
        head->body = blank && next ? next + 1 : line;
        if (blank) break;
        if (!more) {
            const unsigned char *p = line;
            while (p < line_end && *p > 32 && *p < 127 && *p != ':') p++;
            Py_ssize_t name = p - line;
            while (p < line_end && (*p == ' ' || *p == '\t')) p++;
            if (name && p < line_end && *p == ':') {
                open = (html_span){p + 1, line_end - p - 1};
                number = mail_field_number(line, name);
                head->count++;
            }
            else if (!(line_end - line > 4 && memcmp(line, "From ", 5) == 0)
                     && !(line_end - line > 5 && memcmp(line, ">From ", 6) == 0)) break;
        }
        line = next ? next + 1 : stop;
    }
}

PyDoc_STRVAR(mail_head_doc,
"mail_head(raw, start, end, /)\n--\n\n"
"Where the header block at `start` ends, where the body starts, how many fields there are, how long the longest is,\n"
"and the values of Content-Type, Content-Transfer-Encoding, Content-Disposition, Subject and Message-ID.");

static PyObject *
mail_head(PyObject *module, PyObject *args)
{
    PyObject *raw;
    Py_ssize_t start, end, size;
    char *data;
    MailHead head;
    (void)module;
    if (!PyArg_ParseTuple(args, "Snn:mail_head", &raw, &start, &end)) return NULL;
    if (PyBytes_AsStringAndSize(raw, &data, &size) < 0) return NULL;
    if (start < 0 || end > size || start > end) {
        PyErr_SetString(PyExc_ValueError, "mail_head needs 0 <= start <= end <= len(raw)");
        return NULL;
    }
    const unsigned char *base = (const unsigned char *)data;
    scan_head(base + start, base + end, &head);
    const html_span *value = head.value;
    return Py_BuildValue("nnnny#y#y#y#y#", (Py_ssize_t)(head.end - base), (Py_ssize_t)(head.body - base), head.count, head.longest,
                         value[0].at ? (const char *)value[0].at : "", value[0].size,
                         value[1].at ? (const char *)value[1].at : "", value[1].size,
                         value[2].at ? (const char *)value[2].at : "", value[2].size,
                         value[3].at ? (const char *)value[3].at : "", value[3].size,
                         value[4].at ? (const char *)value[4].at : "", value[4].size);
}

/* Where the empty line after the header is; the end of the mail where there is none. */
static const unsigned char *
find_header_end(const unsigned char *raw, const unsigned char *end)
{
    for (const unsigned char *p = raw; p < end; p++) {
        if (*p == '\n' || (*p == '\r' && end - p > 1 && p[1] == '\n')) return p;
        p = memchr(p, '\n', (size_t)(end - p));
        if (!p) break;
    }
    return end;
}

PyDoc_STRVAR(without_fields_doc,
"without_fields(raw, names, /)\n--\n\n"
"The mail without the header fields whose names start with one of `names` (bytes in lower case), and their continuation lines.");

static PyObject *
without_fields(PyObject *module, PyObject *args)
{
    PyObject *raw, *names;
    char *data, *name;
    Py_ssize_t size, name_size;
    (void)module;
    if (!PyArg_ParseTuple(args, "SO!:without_fields", &raw, &PyTuple_Type, &names)) return NULL;
    Py_ssize_t n = PyTuple_Size(names);
    for (Py_ssize_t k = 0; k < n; k++)
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(names, k), &name, &name_size) < 0) return NULL;
    if (PyBytes_AsStringAndSize(raw, &data, &size) < 0) return NULL;

    const unsigned char *start = (const unsigned char *)data, *end = start + size, *head_end = find_header_end(start, end);
    const unsigned char *kept = start;         /* up to here, all is in `out` or dropped */
    unsigned char *out = NULL;
    Py_ssize_t used = 0;
    bool dropping = false;
    for (const unsigned char *line = start, *next; line < head_end; line = next) {
        next = memchr(line, '\n', (size_t)(head_end - line));
        next = next ? next + 1 : head_end;
        if (*line != ' ' && *line != '\t') {
            dropping = false;
            Py_ssize_t room = next - line < 64 ? next - line : 64;
            for (Py_ssize_t k = 0, i; k < n && !dropping; k++) {
                PyBytes_AsStringAndSize(PyTuple_GetItem(names, k), &name, &name_size);
                for (i = 0; i < name_size && i < room && html_lower(line[i]) == (unsigned char)name[i]; i++);
                dropping = i == name_size;
            }
        }
        if (!dropping) continue;
        if (!out && !(out = PyMem_Malloc((size_t)size))) return PyErr_NoMemory();
        memcpy(out + used, kept, (size_t)(line - kept));
        used += line - kept;
        kept = next;
    }
    if (!out) return Py_NewRef(raw);
    memcpy(out + used, kept, (size_t)(end - kept));
    PyObject *result = PyBytes_FromStringAndSize((const char *)out, used + (end - kept));
    PyMem_Free(out);
    return result;
}

static inline bool is_blank(unsigned char c) { return c == ' ' || (unsigned)(c - '\t') < 5; }

/* Copy with runs of ASCII white space as one blank, and none at the ends; `out` has room for size + 16. */
static Py_ssize_t
fold_bytes(const char *data, Py_ssize_t size, char *out)
{
    Py_ssize_t n = 0, i = 0;
    unsigned after = 1;                        /* whether white space, or nothing, goes before */
#if defined(__SSE2__)
    while (size - i >= 16) {                   /* up to the first white space that follows white space, then past its run */
        __m128i block = _mm_loadu_si128((const __m128i *)(data + i)), blank = _mm_set1_epi8(' ');
        __m128i control = _mm_and_si128(_mm_cmpgt_epi8(block, _mm_set1_epi8(8)), _mm_cmplt_epi8(block, _mm_set1_epi8(14)));
        __m128i space = _mm_or_si128(control, _mm_cmpeq_epi8(block, blank));
        unsigned mask = (unsigned)_mm_movemask_epi8(space), dropped = mask & (mask << 1 | after);
        block = _mm_or_si128(_mm_and_si128(space, blank), _mm_andnot_si128(space, block));
        _mm_storeu_si128((__m128i *)(out + n), block);
        if (!dropped) {
            n += 16;
            i += 16;
            after = mask >> 15;
            continue;
        }
        int first = lowest_bit(dropped);
        n += first;
        i += first + lowest_bit(~(mask >> first));
        after = 1;
    }
#endif
    for (; i < size; i++) {                    /* without branches on the letters: thrice as fast */
        unsigned char c = (unsigned char)data[i];
        unsigned space = (c == ' ') | ((unsigned)(c - '\t') < 5);
        out[n] = space ? ' ' : (char)c;
        n += !(space & after);
        after = space;
    }
    return n && out[n - 1] == ' ' ? n - 1 : n;
}

/* The UTF-8 of a str, lone surrogates too; `owner` is what holds it if the str itself doesn't. */
static const char *
any_utf8(PyObject *text, Py_ssize_t *size, PyObject **owner)
{
    char *data;
    const char *found = PyUnicode_AsUTF8AndSize(text, size);
    *owner = NULL;
    if (found || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return found;
    PyErr_Clear();
    *owner = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    return *owner && PyBytes_AsStringAndSize(*owner, &data, size) == 0 ? data : NULL;
}

/* Copy without white space (of ASCII, as str.split knows it); -1 where decode_header would do more. */
static Py_ssize_t
copy_identity(const unsigned char *data, Py_ssize_t size, unsigned char *out)
{
    Py_ssize_t n = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        unsigned char c = data[i];
        if (c & 0x80 || (c == '?' && i && data[i - 1] == '=')) return -1;
        out[n] = c;
        n += !(is_blank(c) || (unsigned)(c - 0x1c) < 4);
    }
    return n;
}

PyDoc_STRVAR(fold_mail_doc,
"fold_mail(identity, subject, text, /)\n--\n\n"
"What a fingerprint is of: Message-ID (bytes) without white space, subject and text with every run of it as one blank, a line\n"
"each, in UTF-8. None for a Message-ID that isn't plain ASCII.");

static PyObject *
fold_mail(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    PyObject *owner[2] = {NULL, NULL}, *folded = NULL;
    const char *text[2];
    char *identity, *out = NULL;
    Py_ssize_t size[3];
    (void)module;
    if (n != 3 || !PyUnicode_Check(args[1]) || !PyUnicode_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "fold_mail needs bytes and two str");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[0], &identity, &size[2]) < 0) return NULL;
    for (int k = 0; k < 2; k++)
        if (!(text[k] = any_utf8(args[k + 1], &size[k], &owner[k]))) goto done;
    if (!(out = PyMem_Malloc((size_t)size[0] + (size_t)size[1] + (size_t)size[2] + 3 + PADDING))) {
        PyErr_NoMemory();
        goto done;
    }
    n = copy_identity((const unsigned char *)identity, size[2], (unsigned char *)out);
    if (n < 0) folded = Py_NewRef(Py_None);
    for (int k = 0; k < 2 && !folded; k++) {
        out[n++] = '\n';
        n += fold_bytes(text[k], size[k], out + n);
    }
    if (!folded) {
        out[n++] = '\n';
        folded = PyBytes_FromStringAndSize(out, n);
    }
done:
    PyMem_Free(out);
    Py_XDECREF(owner[0]);
    Py_XDECREF(owner[1]);
    return folded;
}

/* -- whole mails: what read_message does with a mail that keeps to all limits; any other is left to _Reader in message.py, which
 * this must equal. What is odd in a part (letters beyond ASCII, base64, file names) the functions of _headers.py decode here too.
 *
 * The text of all parts is gathered in UTF-8. Where a limit of characters is counted, bytes of UTF-8 are: they are no fewer. */

enum { MAIL_DEPTH = 16, MAIL_BOUNDARY = 200 };   /* deeper mails and longer boundaries are left to _Reader */
enum { KIND_VALUES, KIND_FUNCTION, DECODE_TEXT, DECODE_BASE64, FILENAME, MAIL_HELPERS };
typedef enum { MAIL_READ, MAIL_OTHER, MAIL_ERROR } MailStatus;
typedef enum { CODING_NONE, CODING_BASE64, CODING_QUOTED, CODING_OTHER } MailCoding;

typedef struct {
    const unsigned char *base;
    Py_ssize_t parts, boundaries, depth, room, longest;
    int flags;
    PyObject *fallback, *helpers, *attachments;  /* the last is a list, or NULL; the others are borrowed */
    unsigned char *text;
    size_t size, capacity;
    bool started;                                /* whether there is a text, be it empty */
    bool truncated;                              /* whether parts were left out */
} MailReader;

/* Whether the first letters of a value, blanks before them skipped, are this word in lower case; only so many bytes are looked at. */
static bool
value_starts(html_span value, Py_ssize_t most, const char *word)
{
    Py_ssize_t size = value.size < most ? value.size : most, at = 0, n = (Py_ssize_t)strlen(word), i = 0;
    while (at < size && is_blank(value.at[at])) at++;
    while (i < n && at + i < size && html_lower(value.at[at + i]) == (unsigned char)word[i]) i++;
    return i == n;
}

static MailCoding
mail_coding(html_span value)
{
    if (!value.size) return CODING_NONE;
    if (value_starts(value, 100, "base64")) return CODING_BASE64;
    if (value_starts(value, 100, "quoted-printable")) return CODING_QUOTED;
    return value_starts(value, 100, "uu") || value_starts(value, 100, "x-uu") ? CODING_OTHER : CODING_NONE;
}

/* Character sets (as Python names them) in which ASCII bytes are ASCII letters: those most mail is in. Four have all their letters
 * here. */
typedef enum { SET_OTHER, SET_WITH_ASCII, SET_ASCII, SET_LATIN_1, SET_WINDOWS, SET_UTF_8 } MailSet;

static MailSet
mail_set(PyObject *charset)
{
    Py_ssize_t size;
    if (charset == Py_None) return SET_UTF_8;
    const char *name = PyUnicode_AsUTF8AndSize(charset, &size);
    if (!name) {
        PyErr_Clear();
        return SET_OTHER;
    }
    if (!strcmp(name, "ascii")) return SET_ASCII;
    if (!strcmp(name, "iso8859-1")) return SET_LATIN_1;
    if (!strcmp(name, "cp1252")) return SET_WINDOWS;
    if (!strcmp(name, "utf-8")) return SET_UTF_8;
    return !size || !strncmp(name, "iso8859-", 8) || !strncmp(name, "cp125", 5) ? SET_WITH_ASCII : SET_OTHER;
}

/* How many bytes from p on are one letter of UTF-8; -n for n bytes that start one and break off, or are none. */
static Py_ssize_t
utf8_letter(const unsigned char *p, const unsigned char *end)
{
    unsigned char lead = *p, low = 0x80, high = 0xBF;      /* between which the second byte is: no surrogates, nothing too long */
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return -1;
    if (lead == 0xE0) low = 0xA0;
    else if (lead == 0xED) high = 0x9F;
    else if (lead == 0xF0) low = 0x90;
    else if (lead == 0xF4) high = 0x8F;
    Py_ssize_t n = 1, whole = (Py_ssize_t)utf8_length(lead);
    for (; n < whole; n++, low = 0x80, high = 0xBF)
        if (p + n == end || p[n] < low || p[n] > high) return -n;
    return whole;
}

static unsigned char *
put_letter(unsigned char *to, uint32_t c)
{
    if (c < 0x800) *to++ = (unsigned char)(0xC0 | c >> 6);
    else {
        *to++ = (unsigned char)(0xE0 | c >> 12);
        *to++ = (unsigned char)(0x80 | (c >> 6 & 63));
    }
    *to++ = (unsigned char)(0x80 | (c & 63));
    return to;
}

/* UTF-8 of bytes in one of the four sets, U+FFFD where Python's decoders with errors="replace" have one; `out` has room for three
 * times the size. */
static Py_ssize_t
widen(const unsigned char *p, Py_ssize_t size, MailSet set, unsigned char *out)
{
    const unsigned char *end = p + size;
    unsigned char *to = out;
    while (p < end) {
#if defined(__SSE2__)
        for (; end - p >= 16; p += 16, to += 16) {
            __m128i block = _mm_loadu_si128((const __m128i *)p);
            if (_mm_movemask_epi8(block)) break;
            _mm_storeu_si128((__m128i *)to, block);
        }
#endif
        for (; p < end && *p < 0x80; p++) *to++ = *p;
        if (p == end) break;
        if (set == SET_UTF_8) {
            Py_ssize_t n = utf8_letter(p, end);
            if (n < 0) to = put_letter(to, 0xFFFD);
            else for (Py_ssize_t i = 0; i < n; i++) *to++ = p[i];
            p += n < 0 ? -n : n;
            continue;
        }
        uint32_t c = *p++;
        if (set == SET_ASCII) c = 0xFFFD;
        else if (set == SET_WINDOWS && c < 0xA0) c = html_c1[c - 0x80] >= 0x100 ? html_c1[c - 0x80] : 0xFFFD;
        to = put_letter(to, c);
    }
    return to - out;
}

/* Whether there is a byte beyond ASCII (1), a carriage return (2). */
static int
odd_bytes(const unsigned char *p, Py_ssize_t size)
{
    Py_ssize_t i = 0;
    unsigned high = 0, returns = 0;
#if defined(__SSE2__)
    __m128i all = _mm_setzero_si128(), found = all;
    for (; size - i >= 16; i += 16) {
        __m128i block = _mm_loadu_si128((const __m128i *)(p + i));
        all = _mm_or_si128(all, block);
        found = _mm_or_si128(found, _mm_cmpeq_epi8(block, _mm_set1_epi8('\r')));
    }
    high = (unsigned)_mm_movemask_epi8(all);
    returns = (unsigned)_mm_movemask_epi8(found);
#endif
    for (; i < size; i++) {
        high |= p[i] & 0x80;
        returns |= p[i] == '\r';
    }
    return (high != 0) | (returns != 0) << 1;
}

/* Copy with line ends of \r\n as \n; `out` has room for size + 16. */
static Py_ssize_t
copy_lines(const unsigned char *p, Py_ssize_t size, unsigned char *out)
{
    Py_ssize_t n = 0, i = 0;
    while (i < size) {
        Py_ssize_t stop = size - 1;            /* a last byte has nothing after it */
#if defined(__SSE2__)
        for (; size - i > 16; i += 16, n += 16) {
            __m128i block = _mm_loadu_si128((const __m128i *)(p + i));
            unsigned mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8('\r')));
            _mm_storeu_si128((__m128i *)(out + n), block);
            if (mask) {
                stop = i + lowest_bit(mask);
                n += stop - i;
                i = stop;
                break;
            }
        }
#endif
        for (; i < stop && p[i] != '\r'; i++) out[n++] = p[i];
        if (p[i] != '\r' || i == size - 1 || p[i + 1] != '\n') out[n++] = p[i];
        i++;
    }
    return n;
}

/* Undo quoted-printable, as binascii.a2b_qp does; it never grows. */
static Py_ssize_t
unquote_printable(const unsigned char *p, Py_ssize_t size, unsigned char *out)
{
    const unsigned char *end = p + size, *equals;
    unsigned char *to = out;
    while (p < end) {
        equals = memchr(p, '=', (size_t)(end - p));
        if (!equals) equals = end;
        memcpy(to, p, (size_t)(equals - p));
        to += equals - p;
        p = equals + 1;
        if (p >= end) break;                   /* a last equals sign is dropped */
        if (*p == '\r' || *p == '\n') {        /* a soft line end, and what comes between its two characters */
            p = memchr(p, '\n', (size_t)(end - p));
            if (!p) break;
            p++;
            continue;
        }
        int high = html_hex(*p), low = end - p > 1 ? html_hex(p[1]) : -1;
        if (high >= 0 && low >= 0) {
            *to++ = (unsigned char)(high << 4 | low);
            p += 2;
        }
        else {
            *to++ = '=';
            p += *p == '=';
        }
    }
    return to - out;
}

/* Add a text in UTF-8. */
static MailStatus
put_text(MailReader *r, const unsigned char *data, Py_ssize_t size, bool returns, bool html)
{
    if (size > r->room) return MAIL_OTHER;
    if (reserve(&r->text, &r->capacity, r->size + (size_t)size + 1 + PADDING, 1) != OK) return MAIL_ERROR;
    if (r->started) r->text[r->size++] = '\n';
    r->started = true;
    unsigned char *out = r->text + r->size, *lines = NULL;
    if (html && returns) {
        if (!(lines = PyMem_Malloc((size_t)size + PADDING))) return MAIL_ERROR;
        size = copy_lines(data, size, lines);
        data = lines;
    }
    if (!html && returns) size = copy_lines(data, size, out);
    else if (!html && size) memcpy(out, data, (size_t)size);
    r->room -= size;
    if (html) size = html_visible(data, size, r->flags, out);
    PyMem_Free(lines);
    if (size < 0) return MAIL_ERROR;
    r->size += (size_t)size;
    return MAIL_READ;
}

/* Add a text as it was sent, its transfer encoding undone. */
static MailStatus
put_decoded(MailReader *r, const unsigned char *data, Py_ssize_t size, bool html, PyObject *charset)
{
    int odd = odd_bytes(data, size);
    MailSet set = mail_set(charset);
    if (!(odd & 1) && set != SET_OTHER) return put_text(r, data, size, odd & 2, html);
    if (set == SET_LATIN_1 || (set >= SET_ASCII && r->fallback == Py_None)) {
        unsigned char *wide = PyMem_Malloc(3 * (size_t)size);
        if (!wide) return MAIL_ERROR;
        MailStatus status = put_text(r, wide, widen(data, size, set, wide), odd & 2, html);
        PyMem_Free(wide);
        return status;
    }
    if (size > r->room / 3) return MAIL_OTHER;   /* it may have more bytes as UTF-8 than there is room for: not decoded twice */
    PyObject *text = PyObject_CallFunction(PyTuple_GetItem(r->helpers, DECODE_TEXT), "y#OO", (const char *)data, size, charset,
                                           r->fallback);
    if (!text) return MAIL_ERROR;
    MailStatus status = MAIL_OTHER;
    const char *encoded = PyUnicode_AsUTF8AndSize(text, &size);
    if (encoded) status = put_text(r, (const unsigned char *)encoded, size, size && memchr(encoded, '\r', (size_t)size), html);
    else PyErr_Clear();
    Py_DECREF(text);
    return status;
}

/* Add the text of a part. */
static MailStatus
read_text(MailReader *r, const unsigned char *start, const unsigned char *end, bool html, PyObject *charset, html_span coding)
{
    Py_ssize_t size = end - start;
    MailStatus status = MAIL_ERROR;
    if (size > r->room) return MAIL_OTHER;
    switch (mail_coding(coding)) {
    case CODING_OTHER: return MAIL_OTHER;
    case CODING_NONE: return put_decoded(r, start, size, html, charset);
    case CODING_QUOTED: {
        unsigned char *data = PyMem_Malloc((size_t)size + 1);
        if (!data) return MAIL_ERROR;
        status = put_decoded(r, data, unquote_printable(start, size, data), html, charset);
        PyMem_Free(data);
        return status;
    }
    case CODING_BASE64: {
        char *data;
        PyObject *bytes = PyObject_CallFunction(PyTuple_GetItem(r->helpers, DECODE_BASE64), "y#", (const char *)start, size);
        if (bytes && PyBytes_AsStringAndSize(bytes, &data, &size) == 0)
            status = put_decoded(r, (const unsigned char *)data, size, html, charset);
        Py_XDECREF(bytes);
    }
    }
    return status;
}

static MailStatus
put_attachment(MailReader *r, PyObject *kind, html_span disposition, html_span type)
{
    PyObject *name = PyObject_CallFunction(PyTuple_GetItem(r->helpers, FILENAME), "y#y#", disposition.at ? (const char *)disposition.at : "",
                                           disposition.size, type.at ? (const char *)type.at : "", type.size);
    PyObject *pair = name ? PyTuple_Pack(2, kind, name) : NULL;
    if (!r->attachments) r->attachments = PyList_New(0);
    int failed = !pair || !r->attachments || PyList_Append(r->attachments, pair) < 0;
    Py_XDECREF(name);
    Py_XDECREF(pair);
    return failed ? MAIL_ERROR : MAIL_READ;
}

static MailStatus read_part(MailReader *r, const unsigned char *start, const unsigned char *end, int depth, bool digest, MailHead *head);

/* The next line end that two hyphens and a boundary follow, or NULL. A mail is searched once for each level that it is nested. */
static const unsigned char *
find_separator(const unsigned char *p, const unsigned char *end, html_span boundary)
{
    const unsigned char *stop = end - p >= boundary.size + 3 ? end - boundary.size - 2 : p;   /* it must start before */
#if defined(__SSE2__)
    for (; stop - p >= 16; p += 16) {
        __m128i ends = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), _mm_set1_epi8('\n'));
        __m128i hyphens = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 1)), _mm_set1_epi8('-'));
        unsigned both = (unsigned)_mm_movemask_epi8(_mm_and_si128(ends, hyphens));
        for (; both; both &= both - 1) {
            const unsigned char *line = p + lowest_bit(both);
            if (line[2] == '-' && !memcmp(line + 3, boundary.at, (size_t)boundary.size)) return line;
        }
    }
#endif
    for (; p < stop && (p = memchr(p, '\n', (size_t)(stop - p))); p++)
        if (p[1] == '-' && p[2] == '-' && !memcmp(p + 3, boundary.at, (size_t)boundary.size)) return p;
    return NULL;
}

/* Read the parts between the lines that start with a boundary; `found` stays false if there is no such line. */
static MailStatus
read_parts(MailReader *r, const unsigned char *start, const unsigned char *end, html_span boundary, int depth, bool digest, bool *found)
{
    const unsigned char *p = start - 1, *begin = NULL;    /* at the line end before the body */
    MailStatus status = MAIL_READ;
    MailHead head;
    while ((p = find_separator(p, end, boundary))) {
        const unsigned char *line = p;
        if (--r->boundaries < 0) {
            r->truncated = true;
            break;
        }
        p = line + 3 + boundary.size;
        const unsigned char *line_end = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL, *rest = p, *stop;
        if (!line_end) line_end = end;
        stop = line_end - p < 80 ? line_end : p + 80;
        while (rest < stop && (*rest == ' ' || *rest == '\t' || *rest == '\r')) rest++;
        while (stop > rest && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r')) stop--;
        bool last = stop - rest == 2 && rest[0] == '-' && rest[1] == '-';
        if (stop > rest && !last) continue;               /* a longer boundary that starts like this one */
        if (!begin && last) return MAIL_READ;
        *found = true;
        if (begin && r->parts <= 0) {
            r->truncated = true;
            return MAIL_READ;
        }
        if (begin && begin < line) status = read_part(r, begin, line[-1] == '\r' ? line - 1 : line, depth + 1, digest, &head);
        if (status != MAIL_READ || last) return status;
        if (line_end == end) return MAIL_READ;            /* nothing follows */
        begin = line_end + 1;
        p = line_end;
    }
    return begin && begin < end ? read_part(r, begin, end, depth + 1, digest, &head) : MAIL_READ;
}

/* Type, character set and boundary of a part: what content_kind says. */
static PyObject *
mail_kind(const MailReader *r, html_span value, bool digest)
{
    if (!value.size) value = digest ? (html_span){(const unsigned char *)"message/rfc822", 14} : (html_span){(const unsigned char *)"text/plain", 10};
    PyObject *key = PyBytes_FromStringAndSize((const char *)value.at, value.size);
    PyObject *kind = key ? PyDict_GetItemWithError(PyTuple_GetItem(r->helpers, KIND_VALUES), key) : NULL;
    if (kind) Py_INCREF(kind);
    else if (key && !PyErr_Occurred()) kind = PyObject_CallFunctionObjArgs(PyTuple_GetItem(r->helpers, KIND_FUNCTION), key, NULL);
    Py_XDECREF(key);
    return kind;
}

static MailStatus
read_body(MailReader *r, const MailHead *head, const unsigned char *end, int depth, PyObject *kind)
{
    PyObject *name, *charset, *boundary;
    Py_ssize_t size;
    html_span type = head->value[0], coding = head->value[1], disposition = head->value[2], line;
    char *boundary_data;
    if (!PyArg_ParseTuple(kind, "OOO", &name, &charset, &boundary)) return MAIL_ERROR;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    if (!text || PyBytes_AsStringAndSize(boundary, &boundary_data, &line.size) < 0) return MAIL_ERROR;
    line.at = (const unsigned char *)boundary_data;
    if (!strncmp(text, "text/", 5)) {
        MailStatus status = read_text(r, head->body, end, size == 9 && !strcmp(text, "text/html"), charset, coding);
        if (status == MAIL_READ && value_starts(disposition, 99, "attachment")) status = put_attachment(r, name, disposition, type);
        return status;
    }
    if (!strncmp(text, "multipart/", 10)) {
        bool found = false;
        MailStatus status = MAIL_READ;
        if (line.size > MAIL_BOUNDARY || memchr(line.at, '\n', (size_t)line.size) || head->body == r->base) return MAIL_OTHER;
        if (line.size) status = read_parts(r, head->body, end, line, depth, size == 16 && !strcmp(text, "multipart/digest"), &found);
        return found || status != MAIL_READ ? status : read_text(r, head->body, end, false, charset, coding);
    }
    if ((size == 14 && (!strcmp(text, "message/rfc822") || !strcmp(text, "message/global"))) || (size == 12 && !strcmp(text, "message/news"))) {
        MailHead inner;
        return read_part(r, head->body, end, depth + 1, false, &inner);
    }
    return put_attachment(r, name, disposition, type);
}

static MailStatus
read_part(MailReader *r, const unsigned char *start, const unsigned char *end, int depth, bool digest, MailHead *head)
{
    if (depth && (r->parts <= 0 || depth > r->depth)) {
        r->truncated = true;
        return MAIL_READ;
    }
    if (r->parts <= 0 || r->depth < 0 || depth > MAIL_DEPTH) return MAIL_OTHER;
    r->parts--;
    scan_head(start, end, head);
    if (head->longest > r->longest) return MAIL_OTHER;
    PyObject *kind = mail_kind(r, head->value[0], digest);
    if (!kind) return MAIL_ERROR;
    MailStatus status = read_body(r, head, end, depth, kind);
    Py_DECREF(kind);
    return status;
}

/* The subject, unfolded and decoded as _headers.decode_header does; its bytes where there may be encoded words. */
static PyObject *
mail_subject(html_span value)
{
    if (!value.size) return PyUnicode_FromStringAndSize("", 0);
    const unsigned char *p = value.at, *end = p + value.size, *mark = p;
    while (mark < end && (mark = memchr(mark, '=', (size_t)(end - mark))))
        if (++mark < end && *mark == '?') return PyBytes_FromStringAndSize((const char *)p, value.size);
    unsigned char small[256], *out = value.size < (Py_ssize_t)sizeof small ? small : PyMem_Malloc((size_t)value.size), *to = out;
    if (!out) return PyErr_NoMemory();
    while (p < end) {                          /* line by line; among several, those of white space are left out */
        const unsigned char *stop = p, *next;
        bool kept = false;
        for (; stop < end && *stop != '\r' && *stop != '\n'; stop++) kept = kept || !is_blank(*stop);
        kept = kept || (p == value.at && stop == end);
        next = stop + 1;
        while (p < stop && (*p == ' ' || *p == '\t')) p++;
        while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t')) stop--;
        if (kept) {
            if (to > out) *to++ = ' ';
            memcpy(to, p, (size_t)(stop - p));
            to += stop - p;
        }
        p = next;
    }
    PyObject *subject = PyUnicode_DecodeUTF8((const char *)out, to - out, NULL);
    if (!subject && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        subject = PyUnicode_DecodeLatin1((const char *)out, to - out, NULL);
    }
    if (out != small) PyMem_Free(out);
    return subject;
}

static PyObject *
mail_result(const MailReader *r, const MailHead *head)
{
    html_span identity = head->value[4];
    PyObject *items[6] = {
        mail_subject(head->value[3]),
        PyUnicode_DecodeUTF8(r->text ? (const char *)r->text : "", (Py_ssize_t)r->size, "replace"),
        r->attachments ? PyList_AsTuple(r->attachments) : PyTuple_New(0),
        Py_NewRef(r->truncated ? Py_True : Py_False),
        PyBytes_FromStringAndSize((const char *)r->base, head->end - r->base),
        PyBytes_FromStringAndSize((const char *)identity.at, identity.size),
    };
    PyObject *result = PyTuple_New(6);
    bool whole = result != NULL;
    for (int k = 0; k < 6; k++) {
        whole = whole && items[k];
        if (result) PyTuple_SetItem(result, k, items[k]);
        else Py_XDECREF(items[k]);
    }
    if (!whole) Py_CLEAR(result);
    return result;
}

PyDoc_STRVAR(read_mail_doc,
"read_mail(raw, bytes, parts, depth, headers, header_length, decoded, flags, fallback, helpers, /)\n--\n\n"
"Subject, text, attachments, whether parts were left out, header block and Message-ID of a mail; None for one that goes over\n"
"another limit or is unusual, which is left to the reader in Python. A subject that may hold encoded words is given as its bytes. Helpers: known content types and\n"
"the functions content_kind, decode_text, decode_base64, filename of _headers.");

static PyObject *
read_mail(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    char *data;
    Py_ssize_t size, limit[7];
    MailHead head;
    (void)module;
    if (n != 10 || !PyTuple_Check(args[9]) || PyTuple_Size(args[9]) != MAIL_HELPERS || !PyDict_Check(PyTuple_GetItem(args[9], 0))) {
        PyErr_SetString(PyExc_TypeError, "read_mail needs bytes, seven whole numbers, a codec or None, and a tuple of five helpers");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[0], &data, &size) < 0) return NULL;
    for (int k = 0; k < 7; k++) {
        limit[k] = PyNumber_AsSsize_t(args[k + 1], NULL);   /* clipped: a limit may be any whole number */
        if (limit[k] == -1 && PyErr_Occurred()) return NULL;
    }
    MailReader r = {.base = (const unsigned char *)data, .parts = limit[1], .depth = limit[2], .longest = limit[4], .room = limit[5],
                    .flags = (int)limit[6], .fallback = args[8], .helpers = args[9]};
    r.boundaries = r.parts < PY_SSIZE_T_MAX / 10 ? 10 * r.parts : PY_SSIZE_T_MAX;
    /* a mail without \n at its start may have line ends of old */
    if (size > limit[0] || !memchr(data, '\n', size < 65536 ? (size_t)size : 65536)) Py_RETURN_NONE;
    MailStatus status = read_part(&r, r.base, r.base + size, 0, false, &head);
    if (status == MAIL_READ && head.count > limit[3]) status = MAIL_OTHER;
    PyObject *result = NULL;
    if (status == MAIL_READ) result = mail_result(&r, &head);
    else if (status == MAIL_OTHER) result = Py_NewRef(Py_None);
    else if (!PyErr_Occurred()) PyErr_NoMemory();
    free(r.text);
    Py_XDECREF(r.attachments);
    return result;
}

/* Header tokens, as _header_tokens.py makes them. Fields of plain ASCII are read here; for one that has anything else (encoded words,
 * raw 8-bit letters, white space that only str.split knows, RFC 2231) the caller's function makes the tokens of that field.
 *
 * All work is done on a copy of the header block in lower case; values are unfolded in place. Each byte is looked at a few times. */

enum { MOST_TOKENS = 500, MOST_NAMES = 60, MOST_HOSTS = 20, MOST_HOPS = 12, MOST_VALUES = 6 };
enum { FROM, REPLY_TO, SENDER, TO, CC, RECEIVED, MESSAGE_ID, CONTENT_TYPE, X_MAILER, USER_AGENT, DATE, READ_FIELDS };

static const struct { const char *name; uint8_t size, most; bool common; } token_fields[] = {
    {"from", 4, 2, true}, {"reply-to", 8, 2, false}, {"sender", 6, 2, false}, {"to", 2, 2, true}, {"cc", 2, 2, true},
    {"received", 8, MOST_VALUES, true}, {"message-id", 10, 1, true}, {"content-type", 12, 1, true}, {"x-mailer", 8, 1, false},
    {"user-agent", 10, 1, false}, {"date", 4, 1, true},
    /* not read here: the subject comes decoded, the others nearly every mail has */
    {"subject", 7, 0, true}, {"return-path", 11, 0, true}, {"delivered-to", 12, 0, true}, {"content-transfer-encoding", 25, 0, true},
    {"mime-version", 12, 0, true},
};
enum { TOKEN_FIELDS = sizeof token_fields / sizeof *token_fields };

static const struct { const char *name; uint8_t size; } transport_fields[] = {
    {"x-spam", 6}, {"x-virus", 7}, {"x-original-to", 13}, {"x-received", 10}, {"x-google", 8}, {"x-ms-exchange", 13}, {"x-bogosity", 10},
};

enum { ENDS_ADDRESS = 1, ENDS_HOST = 2, ENDS_WORD = 4, NOT_PLAIN = 8, ENDS_LINE = 16, MAY_ENCODE = 32 };
static const uint8_t ascii_marks[128] = {
    [' '] = ENDS_ADDRESS | ENDS_HOST | ENDS_WORD, ['\t'] = ENDS_ADDRESS | ENDS_HOST | ENDS_WORD,
    ['<'] = ENDS_ADDRESS | ENDS_HOST, ['>'] = ENDS_ADDRESS | ENDS_HOST, [','] = ENDS_ADDRESS | ENDS_HOST,
    [';'] = ENDS_ADDRESS | ENDS_HOST, ['('] = ENDS_ADDRESS | ENDS_HOST, [')'] = ENDS_ADDRESS | ENDS_HOST,
    ['['] = ENDS_ADDRESS | ENDS_HOST, [']'] = ENDS_ADDRESS | ENDS_HOST, ['"'] = ENDS_ADDRESS, ['\''] = ENDS_ADDRESS,
    [':'] = ENDS_ADDRESS, ['='] = ENDS_HOST, ['\r'] = ENDS_LINE, ['\n'] = ENDS_LINE, ['?'] = MAY_ENCODE,
    [0x0b] = NOT_PLAIN, [0x0c] = NOT_PLAIN, [0x1c] = NOT_PLAIN, [0x1d] = NOT_PLAIN, [0x1e] = NOT_PLAIN, [0x1f] = NOT_PLAIN,
};

typedef struct { uint8_t *at; size_t size; } Piece;
typedef struct { Piece value[MOST_VALUES], before[MOST_VALUES]; int n; } Values;   /* unfolded, and as they are */
typedef struct {
    uint8_t *text;               /* the tokens, one after the other */
    size_t size, room;
    size_t end[MOST_TOKENS];     /* where in the text each ends */
    int n;
    bool no_memory;
    Values field[READ_FIELDS];
    Piece name[MOST_NAMES + 1];  /* less usual field names, distinct and ascending */
    int names;
} Tokens;

typedef struct { PyObject *function, *encoded_words; } Odd;

static void
token_put(Tokens *t, const char *field, const uint8_t *word, size_t size)
{
    size_t prefix = strlen(field);
    if (t->n == MOST_TOKENS || t->no_memory) return;
    if (reserve(&t->text, &t->room, t->size + prefix + size + PADDING, 1) != OK) {
        t->no_memory = true;
        return;
    }
    memcpy(t->text + t->size, field, prefix);
    if (size) memcpy(t->text + t->size + prefix, word, size);
    t->size += prefix + size;
    t->end[t->n++] = t->size;
}

static inline size_t at_most(size_t size, size_t most) { return size < most ? size : most; }
static inline bool is_digit(uint8_t c) { return (unsigned)(c - '0') < 10; }
static inline bool is_low(uint8_t c) { return (unsigned)(c - 'a') < 26; }

static bool
all_digits(const uint8_t *p, const uint8_t *end)
{
    if (p == end) return false;
    while (p < end && is_digit(*p)) p++;
    return p == end;
}

static void
lower_copy(uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t i = 0; i < size; i++) to[i] = (uint8_t)(from[i] + ((uint8_t)(from[i] - 'A') < 26 ? 32 : 0));
}

/* The next run of bytes without the mark, from p on; NULL: there is none. */
static inline const uint8_t *
next_run(const uint8_t *p, const uint8_t *end, uint8_t mark, const uint8_t **run_end)
{
    while (p < end && ascii_marks[*p] & mark) p++;
    if (p == end) return NULL;
    const uint8_t *q = p + 1;
    while (q < end && !(ascii_marks[*q] & mark)) q++;
    *run_end = q;
    return p;
}

/* Words of two letters or more, the first `most` of them. */
static void
put_words(Tokens *t, const char *field, const uint8_t *p, size_t size, int most)
{
    const uint8_t *end = p + size;
    while (p < end && most) {
        const uint8_t *start = p;
        while (p < end && (is_low(*p) || is_digit(*p) || *p == '_')) p++;
        if (p - start > 1) {
            token_put(t, field, start, (size_t)(p - start));
            most--;
        }
        p += p < end;
    }
}

/* The next mail address from *p on: its local part, and its host without dots at the ends. */
static bool
next_address(const uint8_t **p, const uint8_t *end, Piece *local, Piece *host)
{
    const uint8_t *word, *stop;
    while ((word = next_run(*p, end, ENDS_ADDRESS, &stop))) {
        *p = stop;
        const uint8_t *at = stop;
        while (at > word && at[-1] != '@') at--;
        if (at - word < 2 || stop - word >= 255) continue;
        *local = (Piece){(uint8_t *)word, (size_t)(at - 1 - word)};
        while (at < stop && *at == '.') at++;
        while (at < stop && stop[-1] == '.') stop--;
        *host = (Piece){(uint8_t *)at, (size_t)(stop - at)};
        if (host->size) return true;
    }
    return false;
}

static void
put_sender(Tokens *t, const char *field, const char *host_field, Piece value, bool with_name)
{
    const uint8_t *p = value.at, *end = p + at_most(value.size, 1000);
    uint8_t whole[256];
    Piece local, host;
    for (int k = 0; k < 4 && next_address(&p, end, &local, &host); k++) {
        memcpy(whole, local.at, local.size);
        whole[local.size] = '@';
        memcpy(whole + local.size + 1, host.at, host.size);
        token_put(t, field, whole, local.size + 1 + host.size);
        token_put(t, host_field, host.at, host.size);
    }
    const uint8_t *bracket = with_name && value.size ? memchr(value.at, '<', (size_t)(end - value.at)) : NULL;
    if (bracket) put_words(t, field, value.at, (size_t)(bracket - value.at), 10);
}

/* Put a piece into a sorted list of distinct ones that keeps the `most` smallest; it has room for one more. */
static void
keep_smallest(Piece *list, int *n, int most, Piece piece)
{
    int low = 0, high = *n;
    while (low < high) {
        int middle = (low + high) / 2;
        Piece other = list[middle];
        int order = memcmp(piece.at, other.at, at_most(piece.size, other.size));
        if (!order && piece.size == other.size) return;
        if (order < 0 || (!order && piece.size < other.size)) high = middle;
        else low = middle + 1;
    }
    memmove(list + low + 1, list + low, (size_t)(*n - low) * sizeof *list);
    list[low] = piece;
    if (*n < most) ++*n;
}

/* Hosts of all addresses, and about how many there are. Python joins the values with a comma and a blank, and cuts that. */
static void
put_receivers(Tokens *t, const char *host_field, const char *count_field, const Values *values)
{
    Piece hosts[MOST_HOSTS + 1], local, host;
    int n = 0, found = 0;
    size_t room = 4000;
    if (!values->n || (values->n == 1 && !values->value[0].size)) return;
    for (int k = 0; k < values->n; k++) {
        Piece value = values->value[k];
        const uint8_t *p = value.at, *end = p + at_most(value.size, room);
        while (next_address(&p, end, &local, &host)) {
            keep_smallest(hosts, &n, MOST_HOSTS, host);
            found++;
        }
        room -= at_most(value.size + 2, room);
    }
    for (int k = 0; k < n; k++) token_put(t, host_field, hosts[k].at, hosts[k].size);
    const uint8_t digit = (uint8_t)('0' + (found > 0) + (found > 1) + (found > 3) + (found > 7) + (found > 15));
    token_put(t, count_field, &digit, 1);
}

/* Hosts (their last three parts) and networks (the first three numbers of an address) of a Received field. */
static void
put_hops(Tokens *t, Piece value)
{
    const uint8_t *end = value.at + at_most(value.size, 1000), *stop = value.at, *word;
    Piece kept[MOST_HOPS];
    int n = 0;
    while (n < MOST_HOPS && (word = next_run(stop, end, ENDS_HOST, &stop))) {
        const uint8_t *last = stop, *dot[3] = {NULL, NULL, NULL};   /* the last three dots, from the end */
        int dots = 0;
        while (word < last && *word == '.') word++;
        while (word < last && last[-1] == '.') last--;
        if (word == last || !(is_digit(last[-1]) || is_low(last[-1])) || !memchr(word, '.', (size_t)(last - word))) continue;
        bool numbers = true, sign = false;
        for (const uint8_t *p = last; p > word; p--) {
            uint8_t c = p[-1];
            if (c == '.') {
                if (dots < 3) dot[dots] = p - 1;
                dots++;
                numbers = numbers && p[-2] != '.';   /* the word starts with another byte */
            }
            else {
                numbers = numbers && is_digit(c);
                sign = sign || c == '@';
            }
        }
        Piece found;
        if (dots == 3 && numbers) found = (Piece){(uint8_t *)word, (size_t)(dot[0] - word)};
        else {
            const uint8_t *p = dots ? dot[0] + 1 : last;
            if (p == last || sign || last - word >= 100) continue;
            while (p < last && is_low(*p)) p++;
            if (p < last) continue;
            p = dots > 2 ? dot[2] + 1 : word;
            found = (Piece){(uint8_t *)p, (size_t)(last - p)};
        }
        int k = 0;
        while (k < n && !(kept[k].size == found.size && memcmp(kept[k].at, found.at, found.size) == 0)) k++;
        if (k < n) continue;
        kept[n++] = found;
        token_put(t, "received:", found.at, found.size);
    }
}

static inline const uint8_t *
skip_blanks(const uint8_t *p, const uint8_t *end)
{
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    return p;
}

/* Type and character set; false: a parameter that Python must read. */
static bool
put_content(Tokens *t, Piece value)
{
    const uint8_t *p = value.at, *end = p + value.size, *stop = p, *slash = NULL;
    int slashes = 0;
    if (!value.size) return true;
    while (stop < end && *stop != ';' && *stop != '(') stop++;
    p = skip_blanks(p, stop);
    for (slash = p; slash < stop && *slash != ' ' && *slash != '\t'; slash++) slashes += *slash == '/';
    if (slashes == 1) token_put(t, "content-type:", p, at_most((size_t)(slash - p), 60));
    else token_put(t, "content-type:", (const uint8_t *)"text/plain", 10);

    const uint8_t *name = value.at;
    while (end - name >= 7 && memcmp(name, "charset", 7) != 0) {
        const uint8_t *next = memchr(name + 1, 'c', (size_t)(end - name - 1));
        name = next ? next : end;
    }
    if (end - name < 7) return true;
    p = skip_blanks(name + 7, end);
    if (p == end || *p != '=' || name == value.at || (name[-1] != ';' && name[-1] != ' ' && name[-1] != '\t')) return false;
    if (memchr(value.at, '\\', value.size)) return false;
    p = skip_blanks(p + 1, end);
    if (p < end && *p == '"') {
        p++;
        stop = p < end ? memchr(p, '"', (size_t)(end - p)) : NULL;
        if (!stop) {
            stop = end;
            while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t')) stop--;
        }
    }
    else {
        stop = p;
        while (stop < end && *stop != ';' && *stop != ' ' && *stop != '\t') stop++;
    }
    if (stop > p) token_put(t, "charset:", p, at_most((size_t)(stop - p), 40));
    return true;
}

static void
put_zone(Tokens *t, Piece value)
{
    const uint8_t *stop = value.at, *end = value.at + at_most(value.size, 100), *word;
    for (int k = 0; (word = next_run(stop, end, ENDS_WORD, &stop)); k++)
        if (k > 3 && (*word == '+' || *word == '-') && all_digits(word + 1, stop)) {
            token_put(t, "date:", word, (size_t)(stop - word));
            return;
        }
}

/* Unfold a value in place: its lines without blanks at their ends, with one blank between; false: it isn't plain. */
static bool
unfold(Piece *value)
{
    uint8_t *p = value->at, *end = p + value->size, *out = NULL, every = 0;
    for (size_t i = 0; i < value->size; i++) every |= p[i];
    if (every >= 128) return false;
    while (p < end) {
        uint8_t *start = p;
        for (; p < end; p++) {
            uint8_t mark = ascii_marks[*p] & (ENDS_LINE | NOT_PLAIN | MAY_ENCODE);
            if (LIKELY(!mark)) continue;
            if (mark == ENDS_LINE) break;
            if (mark == NOT_PLAIN || (p > start && p[-1] == '=')) return false;
        }
        uint8_t *stop = p;
        p += p < end;
        while (start < stop && (*start == ' ' || *start == '\t')) start++;
        while (start < stop && (stop[-1] == ' ' || stop[-1] == '\t')) stop--;
        if (start == stop) continue;
        if (!out) {
            value->at = start;
            out = stop;
            continue;
        }
        *out++ = ' ';
        memmove(out, start, (size_t)(stop - start));
        out += stop - start;
    }
    value->size = out ? (size_t)(out - value->at) : 0;
    return true;
}

static void
take_field(Tokens *t, Piece name, Piece value)
{
    for (int k = 0; k < TOKEN_FIELDS; k++)
        if (token_fields[k].size == name.size && memcmp(token_fields[k].name, name.at, name.size) == 0) {
            if (k < READ_FIELDS && t->field[k].n < token_fields[k].most) t->field[k].value[t->field[k].n++] = value;
            if (token_fields[k].common) return;
            break;
        }
    if (name.size > 2 && memcmp(name.at, "x-", 2) == 0)
        for (size_t k = 0; k < sizeof transport_fields / sizeof *transport_fields; k++)
            if (name.size >= transport_fields[k].size && memcmp(transport_fields[k].name, name.at, transport_fields[k].size) == 0) return;
    keep_smallest(t->name, &t->names, MOST_NAMES, name);
}

/* Find the fields in a block of lower case, as split_fields does; false: more lines than it cuts. */
static bool
take_fields(Tokens *t, uint8_t *line, uint8_t *end, Py_ssize_t most, size_t longest)
{
    for (Py_ssize_t lines = 0, fields = 0; fields < most; lines++) {
        if (lines >= 4 * most) return false;
        uint8_t *p = line;
        while (p < end && *p > 32 && *p < 127 && *p != ':') p++;
        Piece name = {line, (size_t)(p - line)};
        while (p < end && (*p == ' ' || *p == '\t')) p++;
        bool is_field = name.size && p < end && *p == ':';
        Piece value = {p + is_field, 0};
        uint8_t *stop;
        for (stop = value.at;; stop++) {   /* a line that starts with a blank belongs to the one before */
            stop = stop < end ? memchr(stop, '\n', (size_t)(end - stop)) : NULL;
            if (!stop || stop + 1 == end || (stop[1] != ' ' && stop[1] != '\t')) break;
        }
        value.size = (size_t)((stop ? stop : end) - value.at);
        if (is_field) {
            value.size = at_most(value.size, longest);
            take_field(t, name, value);
            fields++;
        }
        if (!stop) break;
        line = stop + 1;
    }
    return true;
}

/* Types and name endings of attachments; false: not plain pairs of ASCII. */
static bool
put_attachments(Tokens *t, PyObject *attachments)
{
    Py_ssize_t n = PyTuple_Check(attachments) ? PyTuple_Size(attachments) : -1;
    if (n < 0) return false;
    for (Py_ssize_t i = 0; i < n && i < 20; i++) {
        PyObject *pair = PyTuple_GetItem(attachments, i);
        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) return false;
        for (int k = 0; k < 2; k++) {
            Py_ssize_t size;
            PyObject *text = PyTuple_GetItem(pair, k);
            if (!PyUnicode_Check(text)) return false;
            const uint8_t *data = (const uint8_t *)PyUnicode_AsUTF8AndSize(text, &size);
            if (!data || size != PyUnicode_GetLength(text)) {   /* lone surrogates, or not ASCII */
                PyErr_Clear();
                return false;
            }
            if (k == 0) token_put(t, "attachment:", data, at_most((size_t)size, 60));
            else {
                const uint8_t *dot = data + size;
                uint8_t ending[12];
                while (dot > data && dot[-1] != '.') dot--;
                size_t length = at_most((size_t)(data + size - dot), sizeof ending);
                lower_copy(ending, dot, length);
                if (dot > data) token_put(t, "attachment:.", ending, length);
            }
        }
    }
    return true;
}

/* Let Python's `odd(name, values, encoded_words)` give the tokens of a field; the values are bytes, or the subject. */
static bool
put_odd(Tokens *t, const Odd *odd, const char *name, PyObject *values)
{
    PyObject *found = values ? PyObject_CallFunction(odd->function, "sOO", name, values, odd->encoded_words) : NULL;
    Py_ssize_t n = found && PyList_Check(found) ? PyList_Size(found) : 0, size;
    if (found && !PyList_Check(found)) PyErr_SetString(PyExc_TypeError, "odd must return a list of str");
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *token = PyUnicode_AsUTF8AndSize(PyList_GetItem(found, i), &size);
        if (!token) break;
        token_put(t, "", (const uint8_t *)token, (size_t)size);
    }
    Py_XDECREF(found);
    Py_XDECREF(values);
    return !PyErr_Occurred();
}

static PyObject *
values_as_sent(const Values *values, const uint8_t *block, const char *head)
{
    PyObject *list = PyList_New(values->n);
    for (int i = 0; list && i < values->n; i++) {
        Piece value = values->before[i];
        PyObject *bytes = PyBytes_FromStringAndSize(head + (value.at - block), (Py_ssize_t)value.size);
        if (!bytes || PyList_SetItem(list, i, bytes) < 0) Py_CLEAR(list);
    }
    return list;
}

static bool
put_field(Tokens *t, int number, const Values *values)
{
    Piece value = values->value[0], local, host;
    const uint8_t *p = value.at;
    switch (number) {
    case FROM: for (int i = 0; i < values->n; i++) put_sender(t, "from:", "from:@", values->value[i], true); return true;
    case REPLY_TO: for (int i = 0; i < values->n; i++) put_sender(t, "reply-to:", "reply-to:@", values->value[i], false); return true;
    case SENDER: for (int i = 0; i < values->n; i++) put_sender(t, "sender:", "sender:@", values->value[i], false); return true;
    case TO: put_receivers(t, "to:@", "to:count:", values); return true;
    case CC: put_receivers(t, "cc:@", "cc:count:", values); return true;
    case RECEIVED: for (int i = 0; i < values->n; i++) put_hops(t, values->value[i]); return true;
    case MESSAGE_ID:
        if (next_address(&p, p + at_most(value.size, 500), &local, &host)) token_put(t, "message-id:@", host.at, host.size);
        return true;
    case CONTENT_TYPE: return put_content(t, value);
    case DATE: put_zone(t, value); return true;
    default: put_words(t, "x-mailer:", value.at, at_most(value.size, 200), 8); return true;
    }
}

/* The tokens of all fields that are read; false: error. */
static bool
put_fields(Tokens *t, const Odd *odd, const uint8_t *block, const char *head)
{
    for (int k = 0; k < READ_FIELDS; k++) {
        Values *values = &t->field[k];
        bool plain = true;
        int n = t->n;
        size_t size = t->size;
        memcpy(values->before, values->value, (size_t)values->n * sizeof *values->value);
        for (int i = 0; i < values->n; i++) plain = plain && unfold(&values->value[i]);
        if (!values->n || (plain && put_field(t, k, values))) continue;
        t->n = n;
        t->size = size;
        if (!put_odd(t, odd, token_fields[k].name, values_as_sent(values, block, head))) return false;
    }
    return true;
}

/* The tokens as a list of str; with a width hashed, as bytes. */
static PyObject *
tokens_result(const Tokens *t, uint32_t width)
{
    size_t start = 0;
    PyObject *result = width ? PyBytes_FromStringAndSize(NULL, 4 * (Py_ssize_t)t->n) : PyList_New(t->n);
    char *out = result && width ? PyBytes_AsString(result) : NULL;
    for (int i = 0; result && i < t->n; start = t->end[i++]) {
        if (width) {
            uint32_t h = murmur3(t->text + start, t->end[i] - start), column = (h >> 31 ? 0u - h : h) % width;
            memcpy(out + 4 * i, &column, 4);
            continue;
        }
        PyObject *token = PyUnicode_FromStringAndSize((const char *)t->text + start, (Py_ssize_t)(t->end[i] - start));
        if (!token || PyList_SetItem(result, i, token) < 0) Py_CLEAR(result);
    }
    return result;
}

PyDoc_STRVAR(header_tokens_doc,
"header_tokens(head, subject, attachments, most, longest, encoded_words, odd, width=None, /)\n--\n\n"
"The tokens of a header block of at most `most` fields of `longest` bytes: a list, or with a width their columns among so\n"
"many, as scikit-learn's HashingVectorizer has them (uint32). For a field that isn't plain ASCII, `odd(name, values,\n"
"encoded_words)` gives the list. None for more lines than are cut, and attachments that aren't pairs of ASCII.");

static PyObject *
header_tokens(PyObject *module, PyObject *args)
{
    PyObject *head, *subject, *attachments, *most_object, *longest_object, *width_object = Py_None, *result = NULL;
    Py_ssize_t head_size, subject_size;
    Odd odd;
    char *head_data;
    (void)module;
    if (!PyArg_ParseTuple(args, "SUOOOOO|O:header_tokens", &head, &subject, &attachments, &most_object, &longest_object,
                          &odd.encoded_words, &odd.function, &width_object)) return NULL;
    Py_ssize_t most = PyNumber_AsSsize_t(most_object, NULL), longest, width = 0;   /* clipped: Python cuts by any number */
    if (most == -1 && PyErr_Occurred()) return NULL;
    longest = PyNumber_AsSsize_t(longest_object, NULL);
    if (longest == -1 && PyErr_Occurred()) return NULL;
    if (width_object != Py_None) {
        width = PyNumber_AsSsize_t(width_object, NULL);
        if (width < 1 || width > 0x7fffffff) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "width must be between 1 and 2147483647");
            return NULL;
        }
    }
    if (PyBytes_AsStringAndSize(head, &head_data, &head_size) < 0) return NULL;
    const char *subject_data = PyUnicode_AsUTF8AndSize(subject, &subject_size);
    bool plain_subject = subject_data && subject_size == PyUnicode_GetLength(subject);
    if (!subject_data) PyErr_Clear();   /* lone surrogates */
    if (!plain_subject) subject_size = 0;
    Tokens *t = PyMem_Malloc(sizeof *t);
    uint8_t *block = PyMem_Malloc((size_t)head_size + (size_t)subject_size + PADDING);
    if (!t || !block) {
        PyErr_NoMemory();
        goto done;
    }
    t->text = NULL;
    t->size = t->room = 0;
    t->n = t->names = 0;
    t->no_memory = false;
    for (int k = 0; k < READ_FIELDS; k++) t->field[k].n = 0;
    lower_copy(block, (const uint8_t *)head_data, (size_t)head_size);
    lower_copy(block + head_size, (const uint8_t *)subject_data, (size_t)subject_size);
    most = most < PY_SSIZE_T_MAX / 4 ? most : PY_SSIZE_T_MAX / 4;
    bool whole = most > 0 && take_fields(t, block, block + head_size, most, longest < 0 ? 0 : (size_t)longest);
    if (whole) {
        put_words(t, "subject:", block + head_size, (size_t)subject_size, MOST_TOKENS);
        if (!plain_subject && !put_odd(t, &odd, "subject", Py_BuildValue("[O]", subject))) goto done;
        if (!put_fields(t, &odd, block, head_data)) goto done;
        for (int k = 0; k < t->names; k++) token_put(t, "header:", t->name[k].at, at_most(t->name[k].size, 40));
        whole = put_attachments(t, attachments);
    }
    if (t->no_memory) PyErr_NoMemory();
    else result = whole ? tokens_result(t, (uint32_t)width) : Py_NewRef(Py_None);
done:
    if (t && block) free(t->text);
    PyMem_Free(block);
    PyMem_Free(t);
    return result;
}

/* ------------------------------------------------------------------------------------------------ mailboxes */

PyDoc_STRVAR(from_lines_doc,
"from_lines(block, place, /)\n--\n\n"
"Where from `place` on a line starts with \"From \": the places of the line ends before; -1 - place if quoted (\">From \").");

static PyObject *
from_lines(PyObject *module, PyObject *args)
{
    PyObject *block;
    char *data;
    Py_ssize_t size, place;
    (void)module;
    if (!PyArg_ParseTuple(args, "Sn:from_lines", &block, &place) || PyBytes_AsStringAndSize(block, &data, &size) < 0) return NULL;
    if (place < 0) place = 0;
    PyObject *found = PyList_New(0);
    const char *start = data + (place < size ? place : size), *end = data + size;
    /* an F is rare, and memchr is many times quicker than a search that looks at every line */
    for (const char *p = start; found && end - p >= 5 && (p = memchr(p, 'F', (size_t)(end - p - 4))); p++) {
        const char *line = p;
        if (memcmp(p, "From ", 5)) continue;
        while (line > start && line[-1] == '>') line--;
        if (line == start || line[-1] != '\n') continue;
        Py_ssize_t at = line - 1 - data;
        PyObject *value = PyLong_FromSsize_t(line < p ? -1 - at : at);
        if (!value || PyList_Append(found, value) < 0) Py_CLEAR(found);
        Py_XDECREF(value);
    }
    return found;
}

/* ------------------------------------------------------------------------------------------------ module */

static PyMethodDef functions[] = {
    {"count", (PyCFunction)(void (*)(void))count, METH_VARARGS | METH_KEYWORDS, count_doc},
    {"hash_count", (PyCFunction)(void (*)(void))hash_count, METH_VARARGS | METH_KEYWORDS, hash_count_doc},
    {"hash_rows", (PyCFunction)(void (*)(void))hash_rows, METH_VARARGS | METH_KEYWORDS, hash_rows_doc},
    {"place", (PyCFunction)(void (*)(void))place, METH_VARARGS | METH_KEYWORDS, place_doc},
    {"html_text", html_text, METH_VARARGS, html_text_doc},
    {"mail_head", mail_head, METH_VARARGS, mail_head_doc},
    {"without_fields", without_fields, METH_VARARGS, without_fields_doc},
    {"fold_mail", (PyCFunction)(void (*)(void))fold_mail, METH_FASTCALL, fold_mail_doc},
    {"read_mail", (PyCFunction)(void (*)(void))read_mail, METH_FASTCALL, read_mail_doc},
    {"header_tokens", header_tokens, METH_VARARGS, header_tokens_doc},
    {"from_lines", from_lines, METH_VARARGS, from_lines_doc},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddType(module, *type) : -1;
}

/* Python's own hash of a str is keyed by a secret of the process: borrow it. */
static int take_secrets(void)
{
    static const char *const names[2] = {"surebayes kernel, first secret", "surebayes kernel, second secret"};
    uint64_t *secrets[2] = {&secret_a, &secret_b};
    static bool taken; /* once a process: another interpreter's threads may be reading them */
    if (taken)
        return 0;
    for (int i = 0; i < 2; i++) {
        PyObject *text = PyUnicode_FromString(names[i]);
        Py_hash_t hash = text ? PyObject_Hash(text) : -1;
        Py_XDECREF(text);
        if (hash == -1 && PyErr_Occurred())
            return -1;
        *secrets[i] = ((uint64_t)hash * UINT64_C(0x9E3779B97F4A7C15)) | 1;
    }
    taken = true;
    return 0;
}

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    html_fill_slots();
    if (take_secrets() < 0 || add_type(module, &block_spec, &state->block_type) < 0 ||
        add_type(module, &analyzer_spec, &state->analyzer_type) < 0 || add_type(module, &vocabulary_spec, &state->vocabulary_type) < 0 ||
        add_type(module, &scorer_spec, &state->scorer_type) < 0)
        return -1;
    state->isascii = PyUnicode_InternFromString("isascii");
    state->isalnum = PyUnicode_InternFromString("isalnum");
    state->isspace = PyUnicode_InternFromString("isspace");
    state->lower = PyUnicode_InternFromString("lower");
    return state->isascii && state->isalnum && state->isspace && state->lower ? 0 : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    if (state) {
        Py_VISIT(state->block_type);
        Py_VISIT(state->analyzer_type);
        Py_VISIT(state->vocabulary_type);
        Py_VISIT(state->scorer_type);
    }
    return 0;
}

static int module_clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if (state) {
        Py_CLEAR(state->block_type);
        Py_CLEAR(state->analyzer_type);
        Py_CLEAR(state->vocabulary_type);
        Py_CLEAR(state->scorer_type);
        Py_CLEAR(state->isascii);
        Py_CLEAR(state->isalnum);
        Py_CLEAR(state->isspace);
        Py_CLEAR(state->lower);
    }
    return 0;
}

static void module_free(void *module)
{
    State *state = PyModule_GetState(module);
    if (!state)
        return;
    module_clear(module);
    for (int i = 0; i < PAGES; i++)
        free(state->pages[i]);
    while (state->idle) {
        Workspace *next = state->idle->next;
        workspace_free(state->idle);
        state->idle = next;
    }
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};

PyDoc_STRVAR(module_doc, "The text kernel: documents to tokens to counts, hashed counts or scores. See _text_python for the same in Python.");

static struct PyModuleDef module_def = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "surebayes.kernels._text",
                                        .m_doc = module_doc,
                                        .m_size = sizeof(State),
                                        .m_methods = functions,
                                        .m_slots = module_slots,
                                        .m_traverse = module_traverse,
                                        .m_clear = module_clear,
                                        .m_free = module_free};

PyMODINIT_FUNC PyInit__text(void) { return PyModuleDef_Init(&module_def); }
