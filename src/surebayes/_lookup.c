/* Columns to counts to opinions: what judging one message needs of a model, without numpy.
 *
 * A table of counts is a sorted array of 8-byte entries {key, count}, both little-endian uint32. The key is
 * column << class_bits | class; only counts above 0 are there. Every BLOCK bytes have a CRC-32 in an array of their own.
 * The fences are the first key of every block, so that one block answers one column. `_lookup_python.py` is the same
 * thing in Python; keep them equal, to the last bit of a score.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, ENTRIES = BLOCK / 8, MEMO = 1 << 16, SMOOTHINGS = 8 };

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "little-endian machines only; the Python twin serves the others"
#endif

/* ------------------------------------------------------------------------------------------------ CRC-32, 16 bytes at a time */

static uint32_t crc_table[16][256];

static void make_crc_table(void)
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

static uint32_t crc32_of(const uint8_t *p, size_t n)
{
    uint32_t c = 0xFFFFFFFFu;
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

PyDoc_STRVAR(block_checksums_doc, "block_checksums(data)\n--\n\nThe CRC-32 of every 512 bytes (the last block may be shorter), as uint32.");
static PyObject *block_checksums(PyObject *module, PyObject *data)
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

/* ------------------------------------------------------------------------------------------------ counts from a mapped file */

typedef struct {
    const uint8_t *entries, *fences; /* may lie anywhere: read through memcpy */
    const uint8_t *entry_crcs, *fence_crcs;
    size_t n, blocks;
    uint8_t *seen; /* blocks of entries, then of fences, that were checked */
} Table;

static uint32_t word(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }

static int block_is_right(const uint8_t *data, size_t size, const uint8_t *crcs, size_t block, uint8_t *seen)
{
    if (*seen)
        return 1;
    size_t at = block * BLOCK, length = size - at < BLOCK ? size - at : BLOCK;
    *seen = crc32_of(data + at, length) == word(crcs + 4 * block);
    return *seen;
}

static int fence(Table *t, size_t i, uint32_t *key)
{
    size_t block = i * 4 / BLOCK;
    if (!block_is_right(t->fences, t->blocks * 4, t->fence_crcs, block, t->seen + t->blocks + block))
        return -1;
    *key = word(t->fences + 4 * i);
    return 0;
}

/* The last block whose first key is at most `key`, from block `low` on, which is such a block. Columns come in ascending order, so
 * the search gallops from where the last one ended. */
static int find_block(Table *t, uint32_t key, size_t low, size_t *found)
{
    uint32_t first;
    size_t step = 1, high;
    for (high = low + 1; high < t->blocks; high = low + step) {
        if (fence(t, high, &first) < 0)
            return -1;
        if (first > key)
            break;
        low = high;
        step *= 2;
    }
    if (high > t->blocks)
        high = t->blocks;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (fence(t, middle, &first) < 0)
            return -1;
        if (first > key)
            high = middle;
        else
            low = middle;
    }
    *found = low;
    return 0;
}

/* Add the counts of one column, from block `first_block` on; its classes may go on in the next block. */
static int add_column(Table *t, size_t first_block, uint32_t low, uint32_t last, uint32_t *counts, size_t classes)
{
    uint32_t first;
    for (size_t b = first_block; b < t->blocks; b++) {
        if (b > first_block) {
            if (fence(t, b, &first) < 0)
                return -1;
            if (first > last)
                break;
        }
        if (!block_is_right(t->entries, t->n * 8, t->entry_crcs, b, t->seen + b))
            return -1;
        size_t start = b * ENTRIES, end = start + ENTRIES < t->n ? start + ENTRIES : t->n;
        size_t from = start, to = end; /* the first entry of at least `low` */
        while (from < to) {
            size_t middle = from + (to - from) / 2;
            if (word(t->entries + 8 * middle) < low)
                from = middle + 1;
            else
                to = middle;
        }
        for (; from < end && word(t->entries + 8 * from) <= last; from++) {
            size_t c = word(t->entries + 8 * from) & (last - low);
            if (c < classes)
                counts[c] = word(t->entries + 8 * from + 4);
        }
        if (from < end)
            break;
    }
    return 0;
}

/* Blocks lie all over a file that is larger than any cache: they are asked for some columns ahead. */
enum { AHEAD = 16 };

static int fill(Table *t, const uint8_t *columns, size_t n, uint32_t *counts, size_t classes, int bits)
{
    uint32_t mask = bits ? (1u << bits) - 1 : 0, first;
    size_t at[AHEAD], block = 0;
    if (!t->n || !n)
        return 0;
    if (fence(t, 0, &first) < 0)
        return -1;
    for (size_t i = 0; i < n + AHEAD; i++) {
        if (i >= AHEAD) {
            size_t j = i - AHEAD;
            uint32_t low = word(columns + 4 * j) << bits;
            if (add_column(t, at[j % AHEAD], low, low | mask, counts + j * classes, classes) < 0)
                return -1;
        }
        if (i < n) {
            if (find_block(t, word(columns + 4 * i) << bits, block, &block) < 0)
                return -1;
            at[i % AHEAD] = block;
#if defined(__GNUC__)
            for (size_t line = 0; line < BLOCK && block * BLOCK + line < t->n * 8; line += 64)
                __builtin_prefetch(t->entries + block * BLOCK + line);
            __builtin_prefetch(t->entry_crcs + 4 * block);
#endif
        }
    }
    return 0;
}

PyDoc_STRVAR(counts_at_doc,
             "counts_at(file, columns, classes, class_bits, n, entries, entry_crcs, fences, fence_crcs)\n--\n\n"
             "The counts of columns (ascending uint32) in a table of n entries: uint32, one row a column, one value a class.\n\n"
             "The last four are offsets in bytes into `file`. Blocks are checked as they are touched; ValueError where one is damaged.");
static PyObject *counts_at(PyObject *module, PyObject *args)
{
    Py_buffer file, columns;
    Py_ssize_t classes, bits, n, entries, entry_crcs, fences, fence_crcs;
    if (!PyArg_ParseTuple(args, "y*y*nnnnnnn:counts_at", &file, &columns, &classes, &bits, &n, &entries, &entry_crcs, &fences, &fence_crcs))
        return NULL;
    PyObject *result = NULL;
    Table t = {0};
    size_t wanted = (size_t)columns.len / 4, size = (size_t)file.len;
    size_t blocks = ((size_t)n + ENTRIES - 1) / ENTRIES, fence_blocks = (blocks * 4 + BLOCK - 1) / BLOCK;
    const uint8_t *base = file.buf;
    int fits = n >= 0 && (size_t)n <= size / 8 && bits >= 0 && bits < 32 && classes > 0 && classes <= (Py_ssize_t)1 << bits && entries >= 0 &&
               entry_crcs >= 0 && fences >= 0 && fence_crcs >= 0 && (size_t)entries <= size && (size_t)entry_crcs <= size &&
               (size_t)fences <= size && (size_t)fence_crcs <= size && (size_t)n * 8 <= size - (size_t)entries &&
               blocks * 4 <= size - (size_t)entry_crcs && blocks * 4 <= size - (size_t)fences && fence_blocks * 4 <= size - (size_t)fence_crcs;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the table lies outside of its file");
        goto done;
    }
    t = (Table){base + entries, base + fences, base + entry_crcs, base + fence_crcs, (size_t)n, blocks, calloc(blocks + fence_blocks + 1, 1)};
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(wanted * (size_t)classes * 4));
    if (!t.seen || !result) {
        Py_CLEAR(result);
        PyErr_NoMemory();
        goto done;
    }
    uint32_t *counts = (uint32_t *)PyBytes_AsString(result);
    memset(counts, 0, wanted * (size_t)classes * 4);
    if (fill(&t, columns.buf, wanted, counts, (size_t)classes, (int)bits) < 0) {
        Py_CLEAR(result);
        PyErr_SetString(PyExc_ValueError, "a block of the table doesn't match its checksum");
    }
done:
    free(t.seen);
    PyBuffer_Release(&file);
    PyBuffer_Release(&columns);
    return result;
}

PyDoc_STRVAR(load_table_doc,
             "load_table(file, width, classes, class_bits, n, entries, entry_crcs)\n--\n\n"
             "A table of n entries for gather(): (place, counts). Every block is checked; ValueError where one is damaged.");
static PyObject *load_table(PyObject *module, PyObject *args)
{
    Py_buffer file;
    Py_ssize_t width, classes, bits, n, entries, entry_crcs;
    if (!PyArg_ParseTuple(args, "y*nnnnnn:load_table", &file, &width, &classes, &bits, &n, &entries, &entry_crcs))
        return NULL;
    PyObject *result = NULL, *place = NULL, *counts = NULL;
    size_t size = (size_t)file.len, blocks = ((size_t)n + ENTRIES - 1) / ENTRIES, rows = 0;
    const uint8_t *base = file.buf, *from = base + entries;
    const char *wrong = NULL;
    if (n < 0 || (size_t)n > size / 8 || bits < 0 || bits > 31 || classes < 1 || classes > (Py_ssize_t)1 << bits || width < 1 ||
        width > 0x7FFFFFFF || entries < 0 || entry_crcs < 0 || (size_t)entries > size || (size_t)entry_crcs > size ||
        (size_t)n * 8 > size - (size_t)entries || blocks * 4 > size - (size_t)entry_crcs) {
        PyErr_SetString(PyExc_ValueError, "the table lies outside of its file");
        goto done;
    }
    for (size_t i = 0; i < (size_t)n; i++)
        rows += !i || word(from + 8 * i) >> bits != word(from + 8 * i - 8) >> bits;
    place = PyBytes_FromStringAndSize(NULL, 4 * width);
    counts = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * rows * (size_t)classes));
    if (!place || !counts)
        goto done;
    int32_t *at = (int32_t *)PyBytes_AsString(place), *all = (int32_t *)PyBytes_AsString(counts);
    Py_BEGIN_ALLOW_THREADS
    memset(at, 0xFF, 4 * (size_t)width);
    memset(all, 0, 4 * rows * (size_t)classes);
    uint32_t before = 0;
    size_t row = 0;
    for (size_t b = 0; b < blocks && !wrong; b++) {
        size_t end = (b + 1) * ENTRIES < (size_t)n ? (b + 1) * ENTRIES : (size_t)n;
        if (crc32_of(from + b * BLOCK, (end - b * ENTRIES) * 8) != word(base + entry_crcs + 4 * b))
            wrong = "a block of the table doesn't match its checksum";
        for (size_t i = b * ENTRIES; i < end && !wrong; i++) {
            uint32_t key = word(from + 8 * i), column = key >> bits, c = key & ((1u << bits) - 1);
            if ((i && key <= before) || column >= (uint32_t)width || c >= (uint32_t)classes)
                wrong = "an entry of the table is out of order, or of another table";
            else {
                if (at[column] < 0)
                    at[column] = (int32_t)row++;
                all[(size_t)at[column] * (size_t)classes + c] = (int32_t)word(from + 8 * i + 4);
            }
            before = key;
        }
    }
    Py_END_ALLOW_THREADS
    if (wrong)
        PyErr_SetString(PyExc_ValueError, wrong);
    else
        result = PyTuple_Pack(2, place, counts);
done:
    Py_XDECREF(place);
    Py_XDECREF(counts);
    PyBuffer_Release(&file);
    return result;
}

PyDoc_STRVAR(pack_entries_doc,
             "pack_entries(place, counts, classes, class_bits)\n--\n\n"
             "The entries of a table. place: for each column its row in `counts` (int32, below 0: none); counts: int32, `classes` a row.");
static PyObject *pack_entries(PyObject *module, PyObject *args)
{
    Py_buffer place, counts;
    Py_ssize_t classes, bits;
    if (!PyArg_ParseTuple(args, "y*y*nn:pack_entries", &place, &counts, &classes, &bits))
        return NULL;
    size_t width = (size_t)place.len / 4, rows = classes > 0 ? (size_t)counts.len / 4 / (size_t)classes : 0, n = 0;
    const int32_t *where = place.buf, *all = counts.buf;
    PyObject *result = NULL;
    if (classes < 1 || bits < 0 || bits > 31) {
        PyErr_SetString(PyExc_ValueError, "pack_entries needs at least one class and at most 31 bits for it");
        goto done;
    }
    for (size_t i = 0; i < rows * (size_t)classes; i++)
        n += all[i] > 0;
    result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(8 * n));
    if (!result)
        goto done;
    uint32_t *out = (uint32_t *)PyBytes_AsString(result), *end = out + 2 * n;
    Py_BEGIN_ALLOW_THREADS
    for (size_t column = 0; column < width; column++) {
#if defined(__GNUC__)
        if (column + 32 < width && where[column + 32] >= 0)
            __builtin_prefetch(all + (size_t)where[column + 32] * (size_t)classes);
#endif
        if (where[column] < 0 || (size_t)where[column] >= rows)
            continue;
        const int32_t *row = all + (size_t)where[column] * (size_t)classes;
        for (Py_ssize_t c = 0; c < classes && out < end; c++)
            if (row[c] > 0) {
                *out++ = (uint32_t)(column << bits) | (uint32_t)c;
                *out++ = (uint32_t)row[c];
            }
    }
    Py_END_ALLOW_THREADS
    if (out != end) {
        Py_CLEAR(result);
        PyErr_SetString(PyExc_ValueError, "there are counts of columns that have no place, or two columns share one");
    }
done:
    PyBuffer_Release(&place);
    PyBuffer_Release(&counts);
    return result;
}

/* ------------------------------------------------------------------------------------------------ opinions */

/* log(count + smoothing) of the counts asked for so far. Terms that many documents have come with every message, and a logarithm costs as
 * much as everything else about a column; there are few smoothings and few different counts. Guarded by the interpreter's lock. */
typedef struct { double smoothing, *memo; } Logs;
static Logs known_logs[SMOOTHINGS];

static Logs logs_of(double smoothing)
{
    for (int i = 0; i < SMOOTHINGS; i++) {
        if (!known_logs[i].memo) {
            known_logs[i].smoothing = smoothing;
            known_logs[i].memo = calloc(MEMO, sizeof(double)); /* 0: not asked for; where it is the logarithm, it is found out anew */
        }
        if (known_logs[i].smoothing == smoothing)
            return known_logs[i];
    }
    return (Logs){smoothing, NULL};
}

static double log_of(const Logs *logs, double count)
{
    if (logs->memo && count < MEMO && count == (double)(int)count) {
        double *known = &logs->memo[(int)count];
        if (*known == 0.0)
            *known = log(count + logs->smoothing);
        return *known;
    }
    return log(count + logs->smoothing);
}

/* The k-th largest value (k from 1) of an array that is shuffled on the way: quickselect, middle of three as pivot. */
static double kth_largest(double *a, size_t n, size_t k)
{
    size_t low = 0, high = n - 1, want = k - 1;
    while (low < high) {
        double x = a[low], y = a[low + (high - low) / 2], z = a[high];
        double pivot = x > y ? (y > z ? y : x > z ? z : x) : (x > z ? x : y > z ? z : y);
        size_t i = low, j = high;
        for (;;) {
            while (a[i] > pivot)
                i++;
            while (a[j] < pivot)
                j--;
            if (i >= j)
                break;
            double t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
        if (want <= j)
            high = j;
        else
            low = j + 1;
    }
    return a[want];
}

typedef struct { double limit; size_t level; } Cut; /* takes part: above the limit, and the first `level` of those at it */

/* Find what the `top` largest by absolute value are, of equals the first. */
static int strongest(const double *lo, size_t n, size_t top, Cut *cut)
{
    *cut = (Cut){-1.0, 0};
    if (!top || top >= n)
        return 0;
    double *sizes = malloc(n * sizeof *sizes);
    if (!sizes)
        return -1;
    for (size_t i = 0; i < n; i++)
        sizes[i] = fabs(lo[i]);
    cut->limit = kth_largest(sizes, n, top);
    free(sizes);
    size_t above = 0;
    for (size_t i = 0; i < n; i++)
        above += fabs(lo[i]) > cut->limit;
    cut->level = top - above;
    return 0;
}

static double pooled(const double *lo, size_t n, Cut cut)
{
    double sum = 0.0, weight = 0.0;
    for (size_t i = 0; i < n; i++) {
        double w = fabs(lo[i]);
        if (w > cut.limit || (w == cut.limit && cut.level && cut.level--)) {
            sum += w * lo[i];
            weight += w;
        }
    }
    return weight > 0 ? sum / weight : 0.0;
}

typedef struct {
    const uint8_t *counts;
    size_t n, classes, c;
    double inside, outside, width, copies_inside, copies_outside;
    int skip;
} Asked;

/* The log-odds of the columns; how many there are. */
static size_t log_odds(const Asked *q, double smoothing, double *lo)
{
    Logs logs = logs_of(smoothing);
    size_t used = 0;
    double inside_total = log(q->inside + q->copies_inside * (double)q->n + smoothing * q->width);
    double outside_total = log(q->outside + q->copies_outside * (double)q->n + smoothing * q->width);
    for (size_t i = 0; i < q->n; i++) {
        const uint8_t *row = q->counts + 4 * i * q->classes;
        uint64_t all = 0;
        for (size_t k = 0; k < q->classes; k++)
            all += word(row + 4 * k);
        if (q->skip && !all && q->copies_inside + q->copies_outside == 0)
            continue;
        uint32_t own = word(row + 4 * q->c);
        double a = (double)own + q->copies_inside, b = (double)(all - own) + q->copies_outside;
        lo[used++] = (log_of(&logs, a) - inside_total) - (log_of(&logs, b) - outside_total);
    }
    return used;
}

PyDoc_STRVAR(opinions_doc,
             "opinions(counts, classes, c, inside, outside, width, skip, copies_inside, copies_outside, experts)\n--\n\n"
             "Kolcz & Yih, eq. (3) with weights |log-odds| from the current sums: sum(lo |lo|) / sum(|lo|) over a document's columns.\n\n"
             "counts: as counts_at gives them. inside, outside: sums of all counts of class c and of the others. width: columns that\n"
             "smoothing counts. skip: leave columns out that no class has. copies_*: as if the document had been learnt so many times\n"
             "more, by class c and by the others. experts: tuple of (smoothing, top) pairs, top 0 for all columns. One float an expert.");
static PyObject *opinions(PyObject *module, PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t classes, c;
    Asked q = {0};
    PyObject *experts, *result = NULL;
    double *lo = NULL, known = -1.0;
    size_t used = 0;
    if (!PyArg_ParseTuple(args, "y*nndddpddO!:opinions", &buffer, &classes, &c, &q.inside, &q.outside, &q.width, &q.skip, &q.copies_inside,
                          &q.copies_outside, &PyTuple_Type, &experts))
        return NULL;
    if (classes < 1 || c < 0 || c >= classes) {
        PyErr_SetString(PyExc_ValueError, "opinions needs 0 <= c < classes");
        goto done;
    }
    q.counts = buffer.buf, q.classes = (size_t)classes, q.c = (size_t)c, q.n = (size_t)buffer.len / 4 / (size_t)classes;
    Py_ssize_t n_experts = PyTuple_Size(experts);
    lo = malloc((q.n + 1) * sizeof *lo);
    result = PyList_New(n_experts);
    if (!lo || !result) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t e = 0; e < n_experts; e++) {
        double smoothing;
        Py_ssize_t top;
        Cut cut;
        PyObject *expert = PyTuple_GetItem(experts, e), *said;
        if (!PyTuple_Check(expert) || !PyArg_ParseTuple(expert, "dn", &smoothing, &top))
            goto failed;
        if (!(smoothing > 0) || top < 0) {
            PyErr_SetString(PyExc_ValueError, "an expert needs a smoothing above 0 and a top of at least 0");
            goto failed;
        }
        if (smoothing != known)
            used = log_odds(&q, known = smoothing, lo);
        if (strongest(lo, used, (size_t)top, &cut) < 0) {
            PyErr_NoMemory();
            goto failed;
        }
        if (!(said = PyFloat_FromDouble(pooled(lo, used, cut))) || PyList_SetItem(result, e, said) < 0)
            goto failed;
    }
    goto done;
failed:
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "experts must be pairs");
    Py_CLEAR(result);
done:
    free(lo);
    PyBuffer_Release(&buffer);
    return result;
}

/* ------------------------------------------------------------------------------------------------ a table in memory
 *
 * place: for each column its row in `counts`, or -1; counts: int32, one row a column that was ever learnt. Both are larger than the
 * cache, so a column costs two misses; they are asked for a chunk of columns at a time, which lets them overlap.
 */

enum { CHUNK = 64 };

typedef struct {
    Py_buffer place, counts, columns;
    size_t width, rows, classes, n;
} Live;

static int live_open(Live *t, PyObject *place, PyObject *counts, PyObject *columns, Py_ssize_t classes, int writable)
{
    memset(t, 0, sizeof *t);
    if (PyObject_GetBuffer(place, &t->place, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return -1;
    if (PyObject_GetBuffer(counts, &t->counts, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        goto place;
    if (PyObject_GetBuffer(columns, &t->columns, PyBUF_SIMPLE) < 0)
        goto counts;
    if (classes > 0) {
        t->width = (size_t)t->place.len / 4, t->classes = (size_t)classes, t->n = (size_t)t->columns.len / 4;
        t->rows = (size_t)t->counts.len / 4 / t->classes;
        const uint8_t *wanted = t->columns.buf;
        size_t i = 0;
        while (i < t->n && word(wanted + 4 * i) < t->width)
            i++;
        if (i == t->n)
            return 0;
    }
    PyErr_SetString(PyExc_ValueError, "a column is beyond the table, or there is no class");
    PyBuffer_Release(&t->columns);
counts:
    PyBuffer_Release(&t->counts);
place:
    PyBuffer_Release(&t->place);
    return -1;
}

static void live_close(Live *t)
{
    PyBuffer_Release(&t->columns);
    PyBuffer_Release(&t->counts);
    PyBuffer_Release(&t->place);
}

/* The rows of the columns from `start` on; how many. Their counts are on the way when this returns. */
static size_t live_rows(const Live *t, size_t start, int32_t *row)
{
    const uint8_t *wanted = t->columns.buf;
    const int32_t *place = t->place.buf, *counts = t->counts.buf;
    size_t n = t->n - start < CHUNK ? t->n - start : CHUNK;
    for (size_t i = 0; i < n; i++)
        row[i] = place[word(wanted + 4 * (start + i))];
    for (size_t i = 0; i < n; i++) {
        if (row[i] >= 0 && (size_t)row[i] >= t->rows)
            row[i] = -1;
#if defined(__GNUC__)
        if (row[i] >= 0)
            __builtin_prefetch(counts + (size_t)row[i] * t->classes);
#endif
    }
    return n;
}

PyDoc_STRVAR(gather_doc, "gather(place, counts, classes, columns)\n--\n\nThe counts of columns, as counts_at gives them, from a table in memory.");
static PyObject *gather(PyObject *module, PyObject *args)
{
    PyObject *place, *counts, *columns;
    Py_ssize_t classes;
    Live t;
    if (!PyArg_ParseTuple(args, "OOnO:gather", &place, &counts, &classes, &columns) || live_open(&t, place, counts, columns, classes, 0) < 0)
        return NULL;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(t.n * t.classes * 4));
    if (result) {
        char *out = PyBytes_AsString(result);
        int32_t row[CHUNK];
        size_t size = t.classes * 4;
        for (size_t start = 0, n; start < t.n; start += n) {
            n = live_rows(&t, start, row);
            for (size_t i = 0; i < n; i++, out += size) {
                if (row[i] < 0)
                    memset(out, 0, size);
                else
                    memcpy(out, (const int32_t *)t.counts.buf + (size_t)row[i] * t.classes, size);
            }
        }
    }
    live_close(&t);
    return result;
}

static int is_empty(const int32_t *row, size_t classes)
{
    for (size_t k = 0; k < classes; k++)
        if (row[k])
            return 0;
    return 1;
}

PyDoc_STRVAR(count_row_doc,
             "count_row(place, counts, classes, columns, c, sign, size)\n--\n\n"
             "Add a document of class c to a table in memory (sign 1), or take it out (-1): (size, change of the columns with documents).\n\n"
             "size: rows of `counts` in use; there must be room for all columns. ValueError, and nothing changed, where a count would\n"
             "go below zero.");
static PyObject *count_row(PyObject *module, PyObject *args)
{
    PyObject *place, *counts, *columns;
    Py_ssize_t classes, c, size, alive = 0;
    int sign;
    Live t;
    if (!PyArg_ParseTuple(args, "OOnOnin:count_row", &place, &counts, &classes, &columns, &c, &sign, &size) ||
        live_open(&t, place, counts, columns, classes, 1) < 0)
        return NULL;
    int32_t row[CHUNK], *all = t.counts.buf;
    const char *wrong = c < 0 || (size_t)c >= t.classes || size < 0 || (sign > 0 && (size_t)size + t.n > t.rows) ? "there is no room in the table" : NULL;
    for (size_t start = 0, n; sign < 0 && !wrong && start < t.n; start += n) {
        n = live_rows(&t, start, row);
        for (size_t i = 0; i < n; i++)
            if (row[i] < 0 || all[(size_t)row[i] * t.classes + (size_t)c] < 1)
                wrong = "Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed.";
    }
    for (size_t start = 0, n; !wrong && start < t.n; start += n) {
        n = live_rows(&t, start, row);
        for (size_t i = 0; i < n; i++) {
            if (row[i] < 0) {
                row[i] = (int32_t)size++;
                ((int32_t *)t.place.buf)[word((const uint8_t *)t.columns.buf + 4 * (start + i))] = row[i];
            }
            int32_t *own = all + (size_t)row[i] * t.classes;
            if (sign > 0) {
                alive += is_empty(own, t.classes);
                own[c]++;
            } else {
                own[c]--;
                alive -= is_empty(own, t.classes);
            }
        }
    }
    live_close(&t);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
        return NULL;
    }
    return Py_BuildValue("nn", size, alive);
}

/* ------------------------------------------------------------------------------------------------ rows of the journal */

PyDoc_STRVAR(pack_columns_doc, "pack_columns(columns)\n--\n\nAscending uint32 as gaps of two bytes; 65535 stands for so many more, and go on.");
static PyObject *pack_columns(PyObject *module, PyObject *columns)
{
    Py_buffer view;
    if (PyObject_GetBuffer(columns, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    size_t n = (size_t)view.len / 4, words = n;
    const uint8_t *p = view.buf;
    uint32_t next = 0;
    int ascending = 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t column = word(p + 4 * i);
        ascending &= column >= next;
        words += (column - next) / 65535;
        next = column + 1;
    }
    PyObject *result = NULL;
    if (!ascending)
        PyErr_SetString(PyExc_ValueError, "columns must be ascending");
    else if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(2 * words)))) {
        uint16_t *out = (uint16_t *)PyBytes_AsString(result);
        next = 0;
        for (size_t i = 0; i < n; i++) {
            uint32_t gap = word(p + 4 * i) - next;
            for (; gap >= 65535; gap -= 65535)
                *out++ = 65535;
            *out++ = (uint16_t)gap;
            next = word(p + 4 * i) + 1;
        }
    }
    PyBuffer_Release(&view);
    return result;
}

PyDoc_STRVAR(unpack_columns_doc, "unpack_columns(packed, start, words)\n--\n\nWhat pack_columns wrote as so many words, from a byte on: ascending uint32.");
static PyObject *unpack_columns(PyObject *module, PyObject *args)
{
    Py_buffer view;
    Py_ssize_t start, words, n = 0;
    if (!PyArg_ParseTuple(args, "y*nn:unpack_columns", &view, &start, &words))
        return NULL;
    PyObject *result = NULL;
    if (start < 0 || words < 0 || start > view.len || words > (view.len - start) / 2) {
        PyErr_SetString(PyExc_ValueError, "there are fewer words");
        goto done;
    }
    const uint8_t *p = (const uint8_t *)view.buf + start;
    for (Py_ssize_t i = 0; i < words; i++)
        n += (p[2 * i] & p[2 * i + 1]) != 0xFF;
    if ((result = PyBytes_FromStringAndSize(NULL, 4 * n))) {
        uint32_t *out = (uint32_t *)PyBytes_AsString(result), next = 0;
        for (Py_ssize_t i = 0; i < words; i++) {
            uint32_t gap = (uint32_t)p[2 * i] | (uint32_t)p[2 * i + 1] << 8;
            next += gap;
            if (gap != 0xFFFF)
                *out++ = next++;
        }
    }
done:
    PyBuffer_Release(&view);
    return result;
}

/* ------------------------------------------------------------------------------------------------ MurmurHash3 */

static uint32_t murmur3(const uint8_t *p, size_t n)
{
    uint32_t h = 0, k;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        k = word(p + i) * 0xCC9E2D51u;
        h ^= (k << 15 | k >> 17) * 0x1B873593u;
        h = (h << 13 | h >> 19) * 5 + 0xE6546B64u;
    }
    k = 0;
    for (size_t j = n; j > i; j--)
        k = k << 8 | p[j - 1];
    if (n > i) {
        k *= 0xCC9E2D51u;
        h ^= (k << 15 | k >> 17) * 0x1B873593u;
    }
    h ^= (uint32_t)n;
    h = (h ^ h >> 16) * 0x85EBCA6Bu;
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    return h ^ h >> 16;
}

PyDoc_STRVAR(hash_tokens_doc, "hash_tokens(tokens, width)\n--\n\nThe columns of a list of bytes, as scikit-learn's HashingVectorizer has them: uint32.");
static PyObject *hash_tokens(PyObject *module, PyObject *args)
{
    PyObject *tokens;
    unsigned int width;
    if (!PyArg_ParseTuple(args, "O!I:hash_tokens", &PyList_Type, &tokens, &width))
        return NULL;
    if (width < 1 || width > 0x7FFFFFFF) {
        PyErr_SetString(PyExc_ValueError, "width must be between 1 and 2147483647");
        return NULL;
    }
    Py_ssize_t n = PyList_Size(tokens), size;
    PyObject *result = PyBytes_FromStringAndSize(NULL, 4 * n);
    uint32_t *out = result ? (uint32_t *)PyBytes_AsString(result) : NULL;
    for (Py_ssize_t i = 0; result && i < n; i++) {
        char *text;
        if (PyBytes_AsStringAndSize(PyList_GetItem(tokens, i), &text, &size) < 0) {
            Py_CLEAR(result);
            break;
        }
        int32_t h = (int32_t)murmur3((const uint8_t *)text, (size_t)size);
        /* the smallest number has no absolute value: scikit-learn takes 2**31 - 1 - (width - 1) for it */
        out[i] = (h == INT32_MIN ? 0x7FFFFFFFu - (width - 1) : (uint32_t)(h < 0 ? -h : h)) % width;
    }
    return result;
}

static PyMethodDef functions[] = {{"block_checksums", block_checksums, METH_O, block_checksums_doc},
                                  {"counts_at", counts_at, METH_VARARGS, counts_at_doc},
                                  {"pack_entries", pack_entries, METH_VARARGS, pack_entries_doc},
                                  {"opinions", opinions, METH_VARARGS, opinions_doc},
                                  {"gather", gather, METH_VARARGS, gather_doc},
                                  {"count_row", count_row, METH_VARARGS, count_row_doc},
                                  {"pack_columns", pack_columns, METH_O, pack_columns_doc},
                                  {"unpack_columns", unpack_columns, METH_VARARGS, unpack_columns_doc},
                                  {"load_table", load_table, METH_VARARGS, load_table_doc},
                                  {"hash_tokens", hash_tokens, METH_VARARGS, hash_tokens_doc},
                                  {NULL, NULL, 0, NULL}};

static int start(PyObject *module)
{
    make_crc_table();
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, start}, {0, NULL}};
PyDoc_STRVAR(module_doc, "Columns to counts to opinions. See _lookup_python for the same in Python.");
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "surebayes._lookup", module_doc, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__lookup(void) { return PyModuleDef_Init(&definition); }
