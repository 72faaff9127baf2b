/* Tables: values by column, in memory and in files. Learning adds to them, forgetting subtracts; `load` and
 * `pack_entries` convert between the two kinds.
 *
 * Tables are larger than the cache, so most of the time is spent waiting for memory: columns are looked up in chunks,
 * whose cache misses overlap.
 */
#include "pool.h"

enum { STRETCH = 1024 };

const char table_damaged[] = "a block of the table doesn't match its checksum";

/* ------------------------------------------------------------------------------------------------ CRC-32, 16 bytes at
 * a time */

static uint32_t crc_table[16][256];

static void make_crc_table_of_bytes(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        crc_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 16; t++)
            crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^ crc_table[0][crc_table[t - 1][i] & 255];
}

/* With carry-less multiplication of x86-64, 64 bytes at a time are folded into the following ones, the last 16 to 8 and
 * then to 4, with a final Barrett reduction (Gopal et al., "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ Instruction", 2009). A process that maps a model checks hundreds of blocks. */
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define FOLDS 1
#include <immintrin.h>
#define CLMUL __attribute__((target("pclmul,sse4.1")))

static int can_fold; /* whether this processor supports it */

static CLMUL inline __m128i sixteen(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static CLMUL inline __m128i folded(__m128i x, __m128i by, __m128i into)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), into);
}

/* Extend the CRC by n bytes: at least 64, a multiple of 16. */
static CLMUL uint32_t crc32_folded(const uint8_t *p, size_t n, uint32_t c)
{
    /* x^(512+32), x^(512-32), x^(128+32), x^(128-32) and x^64 modulo the polynomial, bits reversed; the polynomial, and
     * x^64 divided by it */
    const __m128i by_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), by_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i by_8 = _mm_set_epi64x(0, 0x163cd6124), divisor = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i low = _mm_set_epi32(0, -1, 0, -1);
    __m128i x[4];
    for (int i = 0; i < 4; i++)
        x[i] = sixteen(p + 16 * i);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)c));
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64)
        for (int i = 0; i < 4; i++)
            x[i] = folded(x[i], by_64, sixteen(p + 16 * i));
    for (int i = 1; i < 4; i++)
        x[i] = folded(x[i - 1], by_16, x[i]);
    __m128i rest = x[3];
    for (; n; p += 16, n -= 16)
        rest = folded(rest, by_16, sixteen(p));
    rest = _mm_xor_si128(_mm_srli_si128(rest, 8), _mm_clmulepi64_si128(rest, by_16, 0x10));
    rest = _mm_xor_si128(_mm_srli_si128(rest, 4), _mm_clmulepi64_si128(_mm_and_si128(rest, low), by_8, 0x00));
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(rest, low), divisor, 0x10);
    rest = _mm_xor_si128(rest, _mm_clmulepi64_si128(_mm_and_si128(quotient, low), divisor, 0x00));
    return (uint32_t)_mm_extract_epi32(rest, 1);
}
#endif

uint32_t crc32_on(uint32_t before, const uint8_t *p, size_t n)
{
    uint32_t c = ~before;
#ifdef FOLDS
    if (can_fold && n >= 64) {
        size_t whole = n & ~(size_t)15;
        c = crc32_folded(p, whole, c);
        p += whole;
        n -= whole;
    }
#endif
    for (; n >= 16; p += 16, n -= 16) {
        uint32_t w[4];
        memcpy(w, p, 16);
        w[0] ^= c;
        c = 0;
        for (int i = 0; i < 4; i++)
            c ^= crc_table[15 - 4 * i][w[i] & 255] ^ crc_table[14 - 4 * i][w[i] >> 8 & 255] ^
                 crc_table[13 - 4 * i][w[i] >> 16 & 255] ^ crc_table[12 - 4 * i][w[i] >> 24];
    }
    for (; n; p++, n--)
        c = crc_table[0][(c ^ *p) & 255] ^ (c >> 8);
    return ~c;
}

void make_crc_table(void)
{
#ifdef FOLDS
    __builtin_cpu_init();
    can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
    make_crc_table_of_bytes();
}

const char checksum_doc[] = "checksum(data)\n--\n\nThe CRC-32 of bytes.";
PyObject *pool_checksum(PyObject *module, PyObject *data)
{
    Py_buffer view;
    (void)module;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t crc = crc32_of(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(crc);
}

const char block_checksums_doc[] =
    "block_checksums(data)\n--\n\nThe CRC-32 of every 512 bytes (the last block may be shorter), as uint32.";
PyObject *pool_block_checksums(PyObject *module, PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    size_t blocks = ((size_t)view.len + BLOCK - 1) / BLOCK;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(blocks * 4));
    if (result) {
        char *out = PyBytes_AsString(result);
        Py_BEGIN_ALLOW_THREADS
        for (size_t i = 0; i < blocks; i++) {
            size_t size = (size_t)view.len - i * BLOCK;
            uint32_t crc = crc32_of((const uint8_t *)view.buf + i * BLOCK, size < BLOCK ? size : BLOCK);
            memcpy(out + 4 * i, &crc, 4);
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    return result;
}

/* ------------------------------------------------------------------------------------------------ opening */

int key_bits(size_t each)
{
    int bits = 0;
    while ((size_t)1 << bits < each)
        bits++;
    return bits;
}

static int open_in_memory(Table *t, Buffers *buffers, PyObject *from, int writable)
{
    size_t values;
    if (!(t->place = buffers_attr(buffers, from, "place", 4, writable, &t->width)) ||
        !(t->values = buffers_attr(buffers, from, "values", 4, writable, &values)))
        return -1;
    t->rows = values / t->each;
    if (t->rows > INT32_MAX || t->width > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a table has up to 2**31 - 1 columns");
        return -1;
    }
    return 0;
}

static int open_in_file(Table *t, Buffers *buffers, PyObject *from)
{
    static const char outside[] = "the table exceeds its file";
    size_t size, n_checked;
    int64_t n, at[4];
    const uint8_t *base = buffers_attr(buffers, from, "file", 1, 0, &size);
    const char *names[4] = {"entries", "entry_crcs", "fences", "fence_crcs"};
    if (!base || whole_attr(from, "n", INT64_MIN, INT64_MAX, &n) < 0)
        return -1;
    for (int i = 0; i < 4; i++)
        if (whole_attr(from, names[i], INT64_MIN, INT64_MAX, &at[i]) < 0)
            return -1;
    int fits = n >= 0 && (uint64_t)n <= size / 8;
    t->n = fits ? (size_t)n : 0;
    t->blocks = (t->n + ENTRIES - 1) / ENTRIES;
    size_t fence_blocks = (t->blocks * 4 + BLOCK - 1) / BLOCK;
    const size_t sizes[4] = {t->n * 8, t->blocks * 4, t->blocks * 4, fence_blocks * 4};
    for (int i = 0; i < 4; i++)
        fits = fits && at[i] >= 0 && (uint64_t)at[i] <= size && sizes[i] <= size - (size_t)at[i];
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, outside);
        return -1;
    }
    t->entries = base + at[0], t->entry_crcs = base + at[1], t->fences = base + at[2], t->fence_crcs = base + at[3];
    if (!(t->checked = buffers_attr(buffers, from, "checked", 1, 1, &n_checked)))
        return -1;
    if (n_checked < t->blocks + fence_blocks) {
        PyErr_SetString(PyExc_ValueError, outside);
        return -1;
    }
    size_t guides;
    if (!(t->guide = buffers_attr(buffers, from, "guide", 1, 0, &guides)))
        return -1;
    t->guides = guides / 4;
    if (t->guides < 2)
        t->guide = NULL;
    else {
        t->guide_shift = word(t->guide) & 63;
        t->guide += 4;
        t->guides--;
        if (t->guide_shift >= EXACT)
            t->guides = t->n && t->bits <= 5 ? t->guides / 2 : 0;
    }
    t->width = (size_t)(0xFFFFFFFFu >> t->bits);
    if (t->width > INT32_MAX)
        t->width = INT32_MAX;
    return 0;
}

int table_open(Table *t, Buffers *buffers, PyObject *from, size_t each, int writable)
{
    memset(t, 0, sizeof *t);
    if (!each || each > (size_t)1 << 31) {
        PyErr_SetString(PyExc_ValueError, "a table needs between 1 and 2**31 values a column");
        return -1;
    }
    t->each = each;
    t->bits = key_bits(each);
    t->in_file = PyObject_HasAttrString(from, "file");
    return t->in_file && !writable ? open_in_file(t, buffers, from) : open_in_memory(t, buffers, from, writable);
}

/* ------------------------------------------------------------------------------------------------ looking columns up
 * in a file */

static int block_is_right(const uint8_t *data, size_t size, const uint8_t *crcs, size_t block, uint8_t *checked)
{
    if (*checked)
        return 1;
    size_t at = block * BLOCK, length = size - at < BLOCK ? size - at : BLOCK;
    *checked = crc32_of(data + at, length) == word(crcs + 4 * block);
    return *checked;
}

int table_block(Table *t, size_t block)
{
    return block_is_right(t->entries, t->n * 8, t->entry_crcs, block, t->checked + block);
}

static int fence(const Table *t, size_t i, uint32_t *key)
{
    size_t block = i * 4 / BLOCK;
    if (!block_is_right(t->fences, t->blocks * 4, t->fence_crcs, block, t->checked + t->blocks + block))
        return -1;
    *key = word(t->fences + 4 * i);
    return 0;
}

enum { NEAR = 32 }; /* blocks whose first keys are compared together */

/* The last block whose first key is at most `key`, from block `low` on, which is one. Columns ascend, so a galloping
 * search starts at the last result; the last few first keys are compared without branches, which would be
 * unpredictable. */
static int find_block(const Table *t, uint32_t key, size_t low, size_t *found)
{
    uint32_t first;
    size_t step = NEAR, high;
    for (high = low + step; high < t->blocks; high = low + step) {
        if (fence(t, high, &first) < 0)
            return -1;
        if (first > key)
            break;
        low = high;
        step *= 2;
    }
    if (high > t->blocks)
        high = t->blocks;
    while (high - low > NEAR) {
        size_t middle = low + (high - low) / 2;
        if (fence(t, middle, &first) < 0)
            return -1;
        if (first > key)
            high = middle;
        else
            low = middle;
    }
    if (high - low > 1 && (fence(t, low + 1, &first) < 0 || fence(t, high - 1, &first) < 0))
        return -1;
    const uint8_t *fences = t->fences + 4 * low;
    uint32_t smaller = 0;
    if (high - low == NEAR)
        for (size_t i = 1; i < NEAR; i++)
            smaller += word(fences + 4 * i) <= key;
    else
        for (size_t i = 1; i < high - low; i++)
            smaller += word(fences + 4 * i) <= key;
    *found = low + smaller;
    return 0;
}

/* The position in a block of the first entry of at least `low`, found without unpredictable branches. */
static inline size_t find_entry(const Table *t, size_t start, size_t end, uint32_t low)
{
    size_t from = start;
    for (size_t left = end - start; left > 1;) {
        size_t half = left / 2;
        from += word(t->entries + 8 * (from + half - 1)) < low ? half : 0;
        left -= half;
    }
    return from + (word(t->entries + 8 * from) < low);
}

/* Read the values of one column, from block `first_block` on; they may continue in the next block. */
static int read_column(const Table *t, size_t first_block, uint32_t low, uint32_t last, int32_t *out)
{
    uint32_t first;
    for (size_t b = first_block; b < t->blocks; b++) {
        if (b > first_block) {
            if (fence(t, b, &first) < 0)
                return -1;
            if (first > last)
                break;
        }
        if (!block_is_right(t->entries, t->n * 8, t->entry_crcs, b, t->checked + b))
            return -1;
        size_t start = b * ENTRIES, end = start + ENTRIES < t->n ? start + ENTRIES : t->n;
        size_t from = find_entry(t, start, end, low);
        for (; from < end && word(t->entries + 8 * from) <= last; from++) {
            size_t which = word(t->entries + 8 * from) & (last - low);
            if (which < t->each)
                out[which] = (int32_t)word(t->entries + 8 * from + 4);
        }
        if (from < end)
            break;
    }
    return 0;
}

/* The same for two values per column, both in the block: branchless. */
static inline int read_pair(const Table *t, size_t block, uint32_t low, int32_t *out)
{
    const size_t start = block * ENTRIES, end = start + ENTRIES < t->n ? start + ENTRIES : t->n;
    if (!block_is_right(t->entries, t->n * 8, t->entry_crcs, block, t->checked + block))
        return -1;
    const size_t from = find_entry(t, start, end, low);
    if (from + 1 >= end)
        return read_column(t, block, low, low | 1, out);
    const uint8_t *entry = t->entries + 8 * from;
    const uint32_t one = word(entry), other = word(entry + 8), last = low | 1;
    const int32_t first = (int32_t)word(entry + 4), second = (int32_t)word(entry + 12);
    out[0] = one == low ? first : 0;
    out[1] = one == last ? first : other == last ? second : 0;
    return 0;
}

/* Blocks are scattered over a file that may exceed any cache, so they are prefetched some columns ahead. */
enum { BLOCKS_AHEAD = 16, IN_A_CACHE = 1 << 20 };

/* Few entries and many ascending columns: each entry is searched among the columns, galloping from the last one. */
static int gather_few(Table *t, const int32_t *columns, size_t n, uint32_t mask, int32_t *out)
{
    for (size_t i = 0, place = 0; i < t->n && place < n; i++) {
        if (i % ENTRIES == 0 && !table_block(t, i / ENTRIES))
            return -1;
        const uint32_t key = word(t->entries + 8 * i), column = key >> t->bits, which = key & mask;
        size_t high = place;
        for (size_t step = 1; high < n && (uint32_t)columns[high] < column; step *= 2) {
            place = high + 1;
            high += step;
        }
        if (high > n)
            high = n;
        while (place < high) {
            size_t middle = place + (high - place) / 2;
            if ((uint32_t)columns[middle] < column)
                place = middle + 1;
            else
                high = middle;
        }
        if (place < n && (uint32_t)columns[place] == column && which < t->each)
            out[place * t->each + which] = (int32_t)word(t->entries + 8 * i + 4);
    }
    return 0;
}

/* Verified entries with a guide: one cache line per column, prefetched some columns ahead. */
static void gather_guided(Table *t, const int32_t *columns, size_t n, uint32_t mask, int32_t *out)
{
    size_t at[BLOCKS_AHEAD];
    for (size_t i = 0; i < n + BLOCKS_AHEAD; i++) {
        if (i >= BLOCKS_AHEAD) {
            const size_t j = i - BLOCKS_AHEAD;
            const uint32_t low = (uint32_t)columns[j] << t->bits, last = low | mask;
            size_t from = at[j % BLOCKS_AHEAD];
            if (from + 8 <= t->n) { /* usually enough, and no branch depends on the content */
                size_t smaller = 0;
                for (size_t k = 0; k < 8; k++)
                    smaller += word(t->entries + 8 * (from + k)) < low;
                from += smaller;
            }
            while (from < t->n && word(t->entries + 8 * from) < low)
                from++;
            for (; from < t->n && word(t->entries + 8 * from) <= last; from++) {
                size_t which = word(t->entries + 8 * from) & mask;
                if (which < t->each)
                    out[j * t->each + which] = (int32_t)word(t->entries + 8 * from + 4);
            }
        }
        if (i < n) {
            const size_t bucket = (uint32_t)columns[i] >> t->guide_shift;
            const size_t start = bucket < t->guides ? word(t->guide + 4 * bucket) : t->n;
            at[i % BLOCKS_AHEAD] = start < t->n ? start : t->n;
            PREFETCH(t->entries + 8 * at[i % BLOCKS_AHEAD]);
        }
    }
}

/* The same with an exact guide: only the column's entries are read. */
static void gather_exactly(Table *t, const int32_t *columns, size_t n, int32_t *out)
{
    size_t at[BLOCKS_AHEAD];
    uint32_t there[BLOCKS_AHEAD];
    for (size_t i = 0; i < n + BLOCKS_AHEAD; i++) {
        if (i >= BLOCKS_AHEAD) {
            const size_t j = i - BLOCKS_AHEAD;
            size_t entry = at[j % BLOCKS_AHEAD];
            for (uint32_t left = there[j % BLOCKS_AHEAD], k = 0; left && k < t->each; left >>= 1, k++)
                if (left & 1 && entry < t->n)
                    out[j * t->each + k] = (int32_t)word(t->entries + 8 * entry++ + 4);
        }
        if (i < n) {
            there[i % BLOCKS_AHEAD] = guided_to(t, (uint32_t)columns[i], &at[i % BLOCKS_AHEAD], 0);
            PREFETCH(t->entries + 8 * at[i % BLOCKS_AHEAD]);
        }
    }
}

/* Fill the words of an exact guide: for every 32 keys the existing ones, and the number of earlier entries. */
static void guide_exactly(const uint8_t *entries, size_t n, size_t words, uint8_t *out)
{
    size_t i = 0;
    for (size_t w = 0; w < words; w++) {
        uint32_t bits = 0, first = (uint32_t)i;
        for (; i < n && word(entries + 8 * i) >> 5 == w; i++)
            bits |= (uint32_t)1 << (word(entries + 8 * i) & 31);
        memcpy(out + 8 * w, &bits, 4);
        memcpy(out + 8 * w + 4, &first, 4);
    }
}

const char guide_doc[] =
    "guide(entries, each)\n--\n\n"
    "Return the guide to entries as uint32: a shift, then for each value of column >> shift the number of "
    "the first entry that isn't before it. With many entries the shift is 32, followed for every 32 keys "
    "by a word with a bit per existing key, and the number of their first entry. `each`: values per "
    "column.";
PyObject *pool_guide(PyObject *module, PyObject *args)
{
    PyObject *from, *result = NULL;
    Py_ssize_t each;
    Py_buffer view;
    (void)module;
    if (!PyArg_ParseTuple(args, "On:guide", &from, &each) || PyObject_GetBuffer(from, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (each < 1 || view.len % 8 || (uint64_t)view.len / 8 > UINT32_MAX)
        PyErr_SetString(PyExc_ValueError, "entries have 8 bytes each, and columns at least one value");
    else
        result = guide_to(view.buf, (size_t)view.len / 8, (size_t)each);
    PyBuffer_Release(&view);
    return result;
}

int pays_exactly(size_t n, size_t words, int bits)
{
    return n && n >= words / 4 && bits <= 5;
}

PyObject *guide_to(const uint8_t *entries, size_t n, size_t each)
{
    const int bits = key_bits(each);
    const uint32_t last = n ? word(entries + 8 * (n - 1)) : 0;
    const uint64_t last_column = (uint64_t)last >> bits;
    const size_t words = n ? (size_t)(last >> 5) + 1 : 0;
    const int exact = pays_exactly(n, words, bits);
    uint32_t shift = exact ? EXACT : 0;
    while (!exact && (last_column >> shift) > n / 4)
        shift++;
    const size_t buckets = exact ? 2 * words : (size_t)(last_column >> shift) + 1;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * (buckets + 1)));
    if (!result)
        return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(result);
    memcpy(out, &shift, 4);
    if (exact) {
        guide_exactly(entries, n, words, out + 4);
        return result;
    }
    size_t bucket = 0;
    for (size_t i = 0; i < n; i++)
        for (const uint64_t here = ((uint64_t)word(entries + 8 * i) >> bits) >> shift;
             bucket <= here && bucket < buckets; bucket++) {
            const uint32_t start = (uint32_t)i;
            memcpy(out + 4 * (bucket + 1), &start, 4);
        }
    for (; bucket < buckets; bucket++)
        memset(out + 4 * (bucket + 1), 0, 4);
    return result;
}

static int rise(const int32_t *columns, size_t n)
{
    int all = 1;
    for (size_t i = 1; i < n; i++)
        all &= columns[i - 1] < columns[i];
    return all;
}

static int gather_in_file(Table *t, const int32_t *columns, size_t n, int32_t *out)
{
    uint32_t mask = t->bits ? (uint32_t)(((uint64_t)1 << t->bits) - 1) : 0, first;
    size_t at[BLOCKS_AHEAD], block = 0;
    const int far = t->n > IN_A_CACHE / 8;
    memset(out, 0, n * t->each * 4);
    if (!t->n || !n)
        return 0;
    if (t->n < n / 2 && rise(columns, n))
        return gather_few(t, columns, n, mask, out);
    if (t->guide) {
        if (t->guide_shift >= EXACT)
            gather_exactly(t, columns, n, out);
        else
            gather_guided(t, columns, n, mask, out);
        return 0;
    }
    if (fence(t, 0, &first) < 0)
        return -1;
    for (size_t i = 0; i < n + BLOCKS_AHEAD; i++) {
        if (i >= BLOCKS_AHEAD) {
            const size_t j = i - BLOCKS_AHEAD, there = at[j % BLOCKS_AHEAD];
            uint32_t low = (uint32_t)columns[j] << t->bits;
            if ((t->each == 2 ? read_pair(t, there, low, out + 2 * j)
                              : read_column(t, there, low, low | mask, out + j * t->each)) < 0)
                return -1;
        }
        if (i < n) {
            if (i && columns[i] < columns[i - 1])
                block = 0;
            if (find_block(t, (uint32_t)columns[i] << t->bits, block, &block) < 0)
                return -1;
            at[i % BLOCKS_AHEAD] = block;
            for (size_t line = 0; far && line < BLOCK && block * BLOCK + line < t->n * 8; line += 64)
                PREFETCH(t->entries + block * BLOCK + line);
            if (far)
                PREFETCH(t->entry_crcs + 4 * block);
        }
    }
    return 0;
}

int table_gather(Table *t, const int32_t *columns, size_t n, int32_t *out)
{
    if (t->in_file)
        return gather_in_file(t, columns, n, out);
    int32_t row[CHUNK];
    for (size_t m; n; columns += m, n -= m) {
        m = next_rows(t, columns, n, n, row, t->each);
        for (size_t i = 0; i < m; i++, out += t->each) {
            if (row[i] < 0)
                memset(out, 0, t->each * 4);
            else
                memcpy(out, t->values + (size_t)row[i] * t->each, t->each * 4);
        }
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------ learning and
 * forgetting */

typedef struct {
    Table table;
    Rows rows;
    const int64_t *labels, *weights; /* by document; no weights: 1 each */
    size_t size, classes;
} Change;

static int change_open(Change *c, Buffers *buffers, PyObject *table, PyObject *rows, PyObject *labels, PyObject *which,
                       PyObject *weights)
{
    int64_t each, size;
    size_t n_labels, n_weights = 0;
    memset(c, 0, sizeof *c);
    if (whole_attr(table, "each", 1, INT32_MAX, &each) < 0 ||
        table_open(&c->table, buffers, table, (size_t)each, 1) < 0 ||
        whole_attr(table, "size", 0, (int64_t)c->table.rows, &size) < 0 ||
        rows_open(&c->rows, buffers, rows, which, c->table.width) < 0 ||
        !(c->labels = buffers_add(buffers, labels, 8, 0, &n_labels, "labels")) ||
        (weights != Py_None && !(c->weights = buffers_add(buffers, weights, 8, 0, &n_weights, "weights"))))
        return -1;
    c->size = (size_t)size, c->classes = (size_t)each;
    int good = n_labels == c->rows.n_documents && (!c->weights || n_weights == n_labels);
    for (size_t i = 0; good && i < n_labels; i++)
        good = c->labels[i] >= 0 && c->labels[i] < each &&
               (!c->weights || (c->weights[i] > -INT32_MAX && c->weights[i] < INT32_MAX));
    if (!good)
        PyErr_SetString(PyExc_ValueError,
                        "each document needs one label below the number of classes, and one weight below 2**31");
    return good ? 0 : -1;
}

static inline int is_empty(const int32_t *row, const size_t classes)
{
    int32_t any = 0;
    for (size_t k = 0; k < classes; k++)
        any |= row[k];
    return !any;
}

/* Add the documents from `start` on as long as there is room; return the number done. */
static inline size_t add_documents(Change *c, size_t start, int64_t *alive, const size_t classes)
{
    int32_t row[CHUNK];
    const Table *t = &c->table;
    const int32_t *last = c->rows.columns + c->rows.n_columns;
    size_t at = start;
    for (; at < c->rows.n_which; at++) {
        int64_t d = rows_at(&c->rows, at);
        const int32_t *columns = c->rows.columns + c->rows.indptr[d], weight = c->weights ? (int32_t)c->weights[d] : 1;
        size_t left = (size_t)(c->rows.indptr[d + 1] - c->rows.indptr[d]), n, label = (size_t)c->labels[d];
        if (left > t->rows - c->size)
            break;
        for (; left; columns += n, left -= n) {
            n = next_rows(t, columns, left, (size_t)(last - columns), row, classes);
            for (size_t i = 0; i < n; i++) {
                if (row[i] < 0) {
                    int32_t *place = t->place + columns[i];
                    if ((uint32_t)*place - 1u >= t->rows) /* a repeated column already has its row */
                        *place = (int32_t)++c->size;
                    row[i] = *place - 1;
                }
                int32_t *own = t->values + (size_t)row[i] * classes;
                *alive += is_empty(own, classes);
                own[label] = (int32_t)((uint32_t)own[label] + (uint32_t)weight);
                if (weight < 0)
                    *alive -= is_empty(own, classes);
            }
        }
    }
    return at;
}

const char add_doc[] =
    "add(table, rows, labels, which, start, weights)\n--\n\n"
    "Add the documents which[start:] (all if None) to a table as long as there is room: (done, size, "
    "columns whose first documents these are).\n\n"
    "labels: the class of each document, weights: how often it counts, or None (both int64). The caller "
    "makes room and continues from `done`.";
PyObject *pool_add(PyObject *module, PyObject *args)
{
    PyObject *table, *rows, *labels, *which, *weights;
    Py_ssize_t start;
    if (!PyArg_ParseTuple(args, "OOOOnO:add", &table, &rows, &labels, &which, &start, &weights))
        return NULL;
    Buffers buffers = {.n = 0};
    Change c;
    size_t done = 0;
    int64_t alive = 0;
    int good = change_open(&c, &buffers, table, rows, labels, which, weights) == 0;
    if (good && start < 0) {
        PyErr_SetString(PyExc_ValueError, "start must be at least 0");
        good = 0;
    }
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        done = c.classes == 2 ? add_documents(&c, (size_t)start, &alive, 2)
                              : add_documents(&c, (size_t)start, &alive, c.classes);
        Py_END_ALLOW_THREADS
    }
    buffers_close(&buffers);
    return good ? Py_BuildValue("nnL", (Py_ssize_t)done, (Py_ssize_t)c.size, (long long)alive) : NULL;
}

/* Subtract n columns of a document, or add them back; return the number done before a count would fall below 0. */
static size_t take_columns(const Change *c, int64_t d, size_t n, int sign, int64_t *alive)
{
    const Table *t = &c->table;
    const int32_t *columns = c->rows.columns + c->rows.indptr[d];
    int64_t weight = c->weights ? c->weights[d] : 1;
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            PREFETCH(t->place + columns[i + AHEAD]);
        if (i + AHEAD / 2 < n) {
            const uint32_t next = (uint32_t)t->place[columns[i + AHEAD / 2]] - 1u;
            fetch(t->values + (next < t->rows ? (size_t)next * c->classes : 0), c->classes);
        }
        uint32_t row = (uint32_t)t->place[columns[i]] - 1u;
        if (row >= t->rows)
            return i;
        int32_t *own = t->values + (size_t)row * c->classes;
        int64_t left = own[c->labels[d]] - sign * weight;
        if (sign > 0 && left < 0)
            return i;
        int was = is_empty(own, c->classes);
        own[c->labels[d]] = (int32_t)left;
        *alive += was - is_empty(own, c->classes);
    }
    return n;
}

const char take_doc[] =
    "take(table, rows, labels, which, weights)\n--\n\n"
    "Subtract documents from a table; return minus the number of columns left without documents.\n\n"
    "ValueError, without a change, if a count would fall below zero.";
PyObject *pool_take(PyObject *module, PyObject *args)
{
    PyObject *table, *rows, *labels, *which, *weights;
    if (!PyArg_ParseTuple(args, "OOOOO:take", &table, &rows, &labels, &which, &weights))
        return NULL;
    Buffers buffers = {.n = 0};
    Change c;
    int64_t alive = 0;
    int good = change_open(&c, &buffers, table, rows, labels, which, weights) == 0;
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        for (size_t at = 0; good && at < c.rows.n_which; at++) {
            int64_t d = rows_at(&c.rows, at);
            size_t n = (size_t)(c.rows.indptr[d + 1] - c.rows.indptr[d]), done = 0;
            good = !c.weights || c.weights[d] > 0;
            if (good) {
                done = take_columns(&c, d, n, 1, &alive);
                good = done == n;
            }
            if (!good) { /* add back everything subtracted so far */
                take_columns(&c, d, done, -1, &alive);
                while (at--) {
                    d = rows_at(&c.rows, at);
                    take_columns(&c, d, (size_t)(c.rows.indptr[d + 1] - c.rows.indptr[d]), -1, &alive);
                }
                break;
            }
        }
        Py_END_ALLOW_THREADS
        if (!good)
            PyErr_SetString(
                PyExc_ValueError,
                "Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed.");
    }
    buffers_close(&buffers);
    return good ? PyLong_FromLongLong(alive) : NULL;
}

/* ------------------------------------------------------------------------------------------------ loading and packing
 */

/* Loading of tables from files. `most`: the maximum of each value, or NULL. */
typedef struct {
    Table *tables;
    size_t n_tables, each, width, rows, room; /* rows: in use; room: capacity */
    int32_t *place, *values;
    const int64_t *most;
} Loading;

static const char count_beyond[] = "a count of the table is below 1, or above the number of documents";

/* The number of columns of a table in a file, if its entries are in order. */
static size_t columns_of(const Table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += !i || (uint64_t)word(t->entries + 8 * i) >> t->bits != (uint64_t)word(t->entries + 8 * i - 8) >> t->bits;
    return n;
}

/* Add every entry of a file to `place` and `values`. Return the error, or NULL. */
static ALWAYS_INLINE const char *unpack(Loading *to, Table *t, const int first, const int64_t *most)
{
    uint32_t before = 0;
    for (size_t b = 0; b < t->blocks; b++) {
        size_t end = (b + 1) * ENTRIES < t->n ? (b + 1) * ENTRIES : t->n;
        if (!block_is_right(t->entries, t->n * 8, t->entry_crcs, b, t->checked + b))
            return table_damaged;
        for (size_t i = b * ENTRIES; i < end; i++) {
            uint32_t key = word(t->entries + 8 * i), column = (uint32_t)((uint64_t)key >> t->bits);
            uint32_t which = key & (uint32_t)(((uint64_t)1 << t->bits) - 1);
            int32_t value = (int32_t)word(t->entries + 8 * i + 4);
            if ((i && key <= before) || column >= to->width || which >= t->each)
                return "an entry of the table is out of order, or of another table";
            if (most && (value < 1 || value > most[which]))
                return count_beyond;
            const int is_new = !i || column != (uint32_t)((uint64_t)before >> t->bits);
            if (first && is_new ? to->place[column] != 0 : (uint32_t)to->place[column] > to->rows)
                return "load needs an empty place";
            if (!to->place[column]) {
                if (to->rows == to->room) /* only if the file changes in the meantime */
                    return table_damaged;
                to->place[column] = (int32_t)++to->rows;
            }
            int32_t *at = &to->values[(size_t)(to->place[column] - 1) * t->each + which];
            if (first)
                *at = value;
            else {
                int64_t sum = (int64_t)*at + value;
                if (sum > INT32_MAX || sum < INT32_MIN)
                    return "counts exceed 2**31";
                *at = (int32_t)sum;
            }
            before = key;
        }
    }
    return NULL;
}

/* Add up all tables; the first one, ideally the largest, is copied. */
static const char *unpack_all(Loading *to)
{
    const char *wrong = NULL;
    if (to->n_tables)
        wrong = unpack(to, &to->tables[0], 1, to->n_tables > 1 ? NULL : to->most);
    for (size_t i = 1; i < to->n_tables && !wrong; i++)
        wrong = unpack(to, &to->tables[i], 0, NULL);
    if (wrong || !to->most || to->n_tables < 2)
        return wrong;
    int32_t beyond = 0;
    for (size_t row = 0; row < to->rows; row++)
        for (size_t k = 0; k < to->each; k++) {
            int32_t value = to->values[row * to->each + k];
            beyond |= value < 0 || value > to->most[k];
        }
    return beyond ? count_beyond : NULL;
}

const char load_doc[] =
    "load(tables, each, place, documents)\n--\n\n"
    "Return the summed values of tables in files in the layout of memory: a bytearray, `each` int32 per "
    "row. Fills `place`.\n\n"
    "documents: int64, the maximum of each value (at least 1), or None. Every block is checked; "
    "ValueError for a damaged one or an invalid entry.";
PyObject *pool_load(PyObject *module, PyObject *args)
{
    PyObject *list, *placed, *documents, *result = NULL;
    Py_ssize_t each;
    if (!PyArg_ParseTuple(args, "O!nOO:load", &PyList_Type, &list, &each, &placed, &documents))
        return NULL;
    Loading to = {.n_tables = (size_t)PyList_Size(list), .each = (size_t)each};
    size_t n_most = 0, room = 0;
    const char *wrong = NULL;
    Buffers *buffers = calloc(1, sizeof *buffers);
    to.tables = calloc(to.n_tables + 1, sizeof *to.tables);
    if (!buffers || !to.tables) {
        PyErr_NoMemory();
        goto done;
    }
    int good = each >= 1;
    for (size_t i = 0; good && i < to.n_tables; i++) {
        if (table_open(&to.tables[i], buffers, PyList_GetItem(list, (Py_ssize_t)i), (size_t)each, 0) < 0)
            goto done;
        good = to.tables[i].in_file;
        room += good ? columns_of(&to.tables[i]) : 0;
    }
    if (!good) {
        PyErr_SetString(PyExc_ValueError,
                        each < 1 ? "a table needs at least one value a column" : "load takes tables in files");
        goto done;
    }
    if (!(to.place = buffers_add(buffers, placed, 4, 1, &to.width, "place")) ||
        (documents != Py_None && !(to.most = buffers_add(buffers, documents, 8, 0, &n_most, "documents"))))
        goto done;
    if (to.width > INT32_MAX || (to.most && n_most != to.each)) {
        PyErr_SetString(PyExc_ValueError, "load takes for each of the values how large it may be");
        goto done;
    }
    to.room = room = room < to.width ? room : to.width;
    if (!(result = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(4 * room * to.each))))
        goto done;
    to.values = (int32_t *)PyByteArray_AsString(result);
    Py_BEGIN_ALLOW_THREADS
    memset(to.values, 0, 4 * room * to.each);
    wrong = unpack_all(&to);
    Py_END_ALLOW_THREADS
    if (wrong || PyByteArray_Resize(result, (Py_ssize_t)(4 * to.rows * to.each)) < 0) {
        Py_CLEAR(result);
        if (wrong)
            PyErr_SetString(PyExc_ValueError, wrong);
    }
done:
    free(to.tables);
    if (buffers)
        buffers_close(buffers);
    free(buffers);
    return result;
}

static inline int any_of_8(const int32_t *numbers)
{
    uint64_t pairs[4];
    memcpy(pairs, numbers, sizeof pairs);
    return (pairs[0] | pairs[1] | pairs[2] | pairs[3]) != 0;
}

const char pack_entries_doc[] =
    "pack_entries(table)\n--\n\n"
    "Return the entries of a table in memory in the format of a file, ascending by key, without zeros.";
PyObject *pool_pack_entries(PyObject *module, PyObject *args)
{
    PyObject *from, *result = NULL;
    if (!PyArg_ParseTuple(args, "O:pack_entries", &from))
        return NULL;
    Buffers buffers = {.n = 0};
    Table t;
    int64_t each, size;
    size_t n = 0;
    if (whole_attr(from, "each", 1, INT32_MAX, &each) < 0 || table_open(&t, &buffers, from, (size_t)each, 0) < 0 ||
        whole_attr(from, "size", 0, (int64_t)t.rows, &size) < 0)
        goto done;
    if (t.in_file || (t.width && (uint64_t)t.width << t.bits > (uint64_t)1 << 32)) {
        PyErr_SetString(PyExc_ValueError, "keys of 32 bits are too small for these columns and values");
        goto done;
    }
    for (size_t i = 0; i < (size_t)size * t.each; i++)
        n += t.values[i] != 0;
    if (!(result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(8 * n))))
        goto done;
    uint32_t *out = (uint32_t *)PyBytes_AsString(result), *end = out + 2 * n;
    Py_BEGIN_ALLOW_THREADS
    /* used columns are listed first, without unpredictable branches: a third of the time */
    uint32_t found[STRETCH + 1];
    for (size_t from_column = 0; from_column < t.width; from_column += STRETCH) {
        size_t to = t.width - from_column < STRETCH ? t.width : from_column + STRETCH, listed = 0;
        for (size_t column = from_column, next; column < to; column = next) {
            next = to - column < 8 ? to : column + 8;
            if (next == column + 8 && !any_of_8(t.place + column))
                continue; /* most columns of a small model are unused */
            for (; column < next; column++) {
                found[listed] = (uint32_t)column;
                listed += (uint32_t)t.place[column] - 1u < (uint32_t)size;
            }
        }
        for (size_t i = 0; i < listed; i++) {
            if (i + 16 < listed)
                PREFETCH(t.values + (size_t)(t.place[found[i + 16]] - 1) * t.each);
            const int32_t *row = t.values + (size_t)(t.place[found[i]] - 1) * t.each;
            for (size_t k = 0; k < t.each && out < end; k++) {
                out[0] = found[i] << t.bits | (uint32_t)k;
                out[1] = (uint32_t)row[k];
                out += row[k] != 0 ? 2 : 0;
            }
        }
    }
    Py_END_ALLOW_THREADS
    if (out != end) {
        Py_CLEAR(result);
        PyErr_SetString(PyExc_ValueError, "there are counts of columns that have no place, or two columns share one");
    }
done:
    buffers_close(&buffers);
    return result;
}

const char totals_doc[] =
    "totals(table)\n--\n\n(columns with documents, [sum of the counts of each class]) of a table in memory.";
PyObject *pool_totals(PyObject *module, PyObject *from)
{
    Buffers buffers = {.n = 0};
    Table t;
    int64_t each, size, *sums = NULL;
    long long alive = 0;
    PyObject *list = NULL, *result = NULL;
    if (whole_attr(from, "each", 1, INT32_MAX, &each) < 0 || table_open(&t, &buffers, from, (size_t)each, 0) < 0 ||
        t.in_file || whole_attr(from, "size", 0, (int64_t)t.rows, &size) < 0)
        goto done;
    if (!(sums = calloc(t.each, sizeof *sums)) || !(list = PyList_New(0))) {
        PyErr_NoMemory();
        goto done;
    }
    for (size_t row = 0; row < (size_t)size; row++) {
        int32_t any = 0;
        for (size_t k = 0; k < t.each; k++) {
            sums[k] += t.values[row * t.each + k];
            any |= t.values[row * t.each + k];
        }
        alive += any != 0;
    }
    for (size_t k = 0; k < t.each; k++) {
        PyObject *sum = PyLong_FromLongLong(sums[k]);
        int failed = !sum || PyList_Append(list, sum) < 0;
        Py_XDECREF(sum);
        if (failed)
            goto done;
    }
    result = Py_BuildValue("LO", alive, list);
done:
    if (!result && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "totals takes a table in memory");
    free(sums);
    Py_XDECREF(list);
    buffers_close(&buffers);
    return result;
}
