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
#include "_select.h"

enum { BLOCK = 512, ENTRIES = BLOCK / 8, MEMO = 1 << 16, SMOOTHINGS = 8, STRETCH = 1024 };

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
    /* columns that have a place are first listed, without a branch that nobody could foretell: a third of the time */
    uint32_t found[STRETCH + 1];
    for (size_t from = 0; from < width; from += STRETCH) {
        size_t to = width - from < STRETCH ? width : from + STRETCH, listed = 0;
        for (size_t column = from; column < to; column++) {
            found[listed] = (uint32_t)column;
            listed += (uint32_t)where[column] < rows;
        }
        for (size_t i = 0; i < listed; i++) {
#if defined(__GNUC__)
            if (i + 16 < listed)
                __builtin_prefetch(all + (size_t)where[found[i + 16]] * (size_t)classes);
#endif
            const int32_t *row = all + (size_t)where[found[i]] * (size_t)classes;
            for (Py_ssize_t c = 0; c < classes && out < end; c++) {
                out[0] = found[i] << bits | (uint32_t)c;
                out[1] = (uint32_t)row[c];
                out += row[c] > 0 ? 2 : 0;
            }
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
            known_logs[i].memo = calloc(MEMO, sizeof(double)); /* +0: not asked for; a logarithm of 0 is kept as -0 */
        }
        if (known_logs[i].smoothing == smoothing)
            return known_logs[i];
    }
    return (Logs){smoothing, NULL};
}

static int is_known(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits != 0;
}

static double log_of(const Logs *logs, double count)
{
    if (logs->memo && count < MEMO && count == (double)(int)count) {
        double *known = &logs->memo[(int)count];
        if (!is_known(*known)) {
            double value = log(count + logs->smoothing);
            *known = value == 0.0 ? -0.0 : value;
        }
        return *known;
    }
    return log(count + logs->smoothing);
}

static inline double log_of_whole(const Logs *logs, uint64_t count)
{
    double known = logs->memo && count < MEMO ? logs->memo[count] : 0.0;
    return is_known(known) ? known : log_of(logs, (double)count);
}

enum { BINS = 512 };

static size_t bin_of(double size) { return size < (BINS - 1) / 16.0 ? (size_t)(int)(size * 16.0) : BINS - 1; }

typedef struct { double limit; size_t level; } Cut; /* takes part: above the limit, and the first `level` of those at it */

/* Find what the `top` largest by absolute value are, of equals the first. Values are counted by size, and only those of the size that
 * the limit is of are looked at closely. `room` is as long as `lo`. */
static void strongest(const double *lo, size_t n, size_t top, double *room, Cut *cut)
{
    *cut = (Cut){-1.0, 0};
    if (!top || top >= n)
        return;
    uint32_t sizes[BINS] = {0};
    for (size_t i = 0; i < n; i++)
        sizes[bin_of(fabs(lo[i]))]++;
    size_t bin = BINS, above = 0, near = 0, greater = 0;
    while (above + sizes[--bin] < top)
        above += sizes[bin];
    for (size_t i = 0; i < n; i++) {
        room[near] = fabs(lo[i]);
        near += bin_of(room[near]) == bin;
    }
    cut->limit = kth_largest(room, near, top - above);
    for (size_t i = 0; i < near; i++)
        greater += room[i] > cut->limit;
    cut->level = top - above - greater;
}

static double pooled(const double *lo, size_t n, Cut cut)
{
    double sum = 0.0, weight = 0.0;
    if (cut.limit < 0) {
        for (size_t i = 0; i < n; i++) {
            double w = fabs(lo[i]);
            sum += w * lo[i];
            weight += w;
        }
        return weight > 0 ? sum / weight : 0.0;
    }
    for (size_t i = 0; i < n; i++) {
        double w = fabs(lo[i]);
        if (w >= cut.limit && (w > cut.limit || (cut.level && cut.level--))) {
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
    int copies = q->copies_inside != 0 || q->copies_outside != 0;
    if (!copies && q->classes == 2) { /* what judging a mail asks; whether a column is known can't be foretold: no branch for it */
        const uint8_t *own = q->counts + 4 * q->c, *other = q->counts + 4 * (1 - q->c);
        for (size_t i = 0; i < q->n; i++) {
            uint32_t a = word(own + 8 * i), b = word(other + 8 * i);
            lo[used] = (log_of_whole(&logs, a) - inside_total) - (log_of_whole(&logs, b) - outside_total);
            used += !q->skip || (a | b) != 0;
        }
        return used;
    }
    for (size_t i = 0; i < q->n; i++) {
        const uint8_t *row = q->counts + 4 * i * q->classes;
        uint64_t all = 0;
        for (size_t k = 0; k < q->classes; k++)
            all += word(row + 4 * k);
        if (q->skip && !all && !copies)
            continue;
        uint32_t own = word(row + 4 * q->c);
        double a = (double)own + q->copies_inside, b = (double)(all - own) + q->copies_outside;
        lo[used++] = (log_of(&logs, a) - inside_total) - (log_of(&logs, b) - outside_total);
    }
    return used;
}

/* Ask the experts of a view, a tuple of (smoothing, top), and put what they say into a list. `room`: twice as many doubles as columns,
 * and two. */
static int ask(const Asked *q, PyObject *experts, double *room, PyObject *list)
{
    double known = -1.0, *lo = room, *more = room + q->n + 1;
    size_t used = 0;
    for (Py_ssize_t e = 0; e < PyTuple_Size(experts); e++) {
        double smoothing;
        Py_ssize_t top;
        Cut cut;
        PyObject *expert = PyTuple_GetItem(experts, e);
        if (!PyTuple_Check(expert)) {
            PyErr_SetString(PyExc_TypeError, "experts must be pairs");
            return -1;
        }
        if (!PyArg_ParseTuple(expert, "dn", &smoothing, &top))
            return -1;
        if (!(smoothing > 0) || top < 0) {
            PyErr_SetString(PyExc_ValueError, "an expert needs a smoothing above 0 and a top of at least 0");
            return -1;
        }
        if (smoothing != known)
            used = log_odds(q, known = smoothing, lo);
        strongest(lo, used, (size_t)top, more, &cut);
        PyObject *said = PyFloat_FromDouble(pooled(lo, used, cut));
        int done = said ? PyList_Append(list, said) : -1;
        Py_XDECREF(said);
        if (done < 0)
            return -1;
    }
    return 0;
}

/* Read a question: what `opinions` takes after the counts. */
static int asked_of(PyObject *question, Asked *q, PyObject **experts)
{
    Py_ssize_t classes, c;
    if (!PyArg_ParseTuple(question, "nndddpddO!:opinions", &classes, &c, &q->inside, &q->outside, &q->width, &q->skip, &q->copies_inside,
                          &q->copies_outside, &PyTuple_Type, experts))
        return -1;
    if (classes < 1 || c < 0 || c >= classes) {
        PyErr_SetString(PyExc_ValueError, "opinions needs 0 <= c < classes");
        return -1;
    }
    q->classes = (size_t)classes, q->c = (size_t)c;
    return 0;
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
    Asked q = {0};
    PyObject *experts, *result = NULL, *question = PyTuple_GetSlice(args, 1, PyTuple_Size(args));
    if (!question)
        return NULL;
    if (PyTuple_Size(args) < 1) {
        PyErr_SetString(PyExc_TypeError, "opinions needs counts");
        goto done;
    }
    if (asked_of(question, &q, &experts) < 0 || PyObject_GetBuffer(PyTuple_GetItem(args, 0), &buffer, PyBUF_SIMPLE) < 0)
        goto done;
    q.counts = buffer.buf, q.n = (size_t)buffer.len / 4 / q.classes;
    double *room = malloc((2 * q.n + 2) * sizeof *room);
    result = room ? PyList_New(0) : PyErr_NoMemory();
    if (result && ask(&q, experts, room, result) < 0)
        Py_CLEAR(result);
    free(room);
    PyBuffer_Release(&buffer);
done:
    Py_DECREF(question);
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

/* Fill in the counts of all columns and, if wanted, the rows of `counts` that they are in. */
static void live_gather(const Live *t, char *out, int32_t *places)
{
    int32_t row[CHUNK];
    size_t size = t->classes * 4;
    for (size_t start = 0, n; start < t->n; start += n) {
        n = live_rows(t, start, row);
        if (places)
            memcpy(places + start, row, n * sizeof *row);
        for (size_t i = 0; i < n; i++, out += size) {
            if (row[i] < 0)
                memset(out, 0, size);
            else
                memcpy(out, (const int32_t *)t->counts.buf + (size_t)row[i] * t->classes, size);
        }
    }
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
    if (result)
        live_gather(&t, PyBytes_AsString(result), NULL);
    live_close(&t);
    return result;
}

/* Put what the experts of view v say into the lists of the contrasts. */
static int ask_view(PyObject *questions, Py_ssize_t v, const char *counts, size_t n, size_t classes, double *room, PyObject *said)
{
    for (Py_ssize_t k = 0; k < PyList_Size(questions); k++) {
        PyObject *own = PyList_GetItem(questions, k), *list = PyList_GetItem(said, k), *question, *experts;
        Py_ssize_t silent;
        Asked q = {0};
        if (!PyList_Check(own) || v >= PyList_Size(own) || !PyTuple_Check(PyList_GetItem(own, v))) {
            PyErr_SetString(PyExc_TypeError, "a question is missing, or no tuple");
            return -1;
        }
        if (!PyArg_ParseTuple(PyList_GetItem(own, v), "nO", &silent, &question))
            return -1;
        if (question == Py_None) {
            PyObject *none = PyFloat_FromDouble(0.0);
            int done = none ? 0 : -1;
            while (done == 0 && silent-- > 0)
                done = PyList_Append(list, none);
            Py_XDECREF(none);
            if (done < 0)
                return -1;
            continue;
        }
        if (!PyTuple_Check(question)) {
            PyErr_SetString(PyExc_TypeError, "a question is no tuple");
            return -1;
        }
        if (asked_of(question, &q, &experts) < 0)
            return -1;
        if (q.classes != classes) {
            PyErr_SetString(PyExc_ValueError, "a question is about another number of classes");
            return -1;
        }
        q.counts = (const uint8_t *)counts, q.n = n;
        if (ask(&q, experts, room, list) < 0)
            return -1;
    }
    return 0;
}

PyDoc_STRVAR(consult_doc,
             "consult(tables, classes, columns, questions)\n--\n\n"
             "Ask all experts of all views about one document: gather() and opinions() of each view in one call.\n\n"
             "tables: list of (place, counts). columns: list of buffers. questions: for each contrast a list of (number of experts, what\n"
             "opinions() takes after the counts, or None for an opinion of 0). Gives a list of opinions for each contrast, and for each view\n"
             "the rows of its table that its columns have, -1 for none, as count_row() takes them.");
static PyObject *consult(PyObject *module, PyObject *args)
{
    PyObject *tables, *columns, *questions, *result = NULL, *said = NULL, *rows = NULL;
    Py_ssize_t classes;
    char *room = NULL;
    size_t space = 0;
    if (!PyArg_ParseTuple(args, "O!nO!O!:consult", &PyList_Type, &tables, &classes, &PyList_Type, &columns, &PyList_Type, &questions))
        return NULL;
    Py_ssize_t views = PyList_Size(tables);
    if (views != PyList_Size(columns)) {
        PyErr_SetString(PyExc_ValueError, "there must be columns for every table");
        return NULL;
    }
    said = PyList_New(0);
    rows = PyList_New(0);
    for (Py_ssize_t k = 0; said && k < PyList_Size(questions); k++) {
        PyObject *list = PyList_New(0);
        if (!list || PyList_Append(said, list) < 0)
            Py_CLEAR(said);
        Py_XDECREF(list);
    }
    if (!said || !rows)
        goto done;
    for (Py_ssize_t v = 0; v < views; v++) {
        PyObject *place, *counts, *found;
        Live t;
        if (!PyTuple_Check(PyList_GetItem(tables, v))) {
            PyErr_SetString(PyExc_TypeError, "a table is a pair (place, counts)");
            goto done;
        }
        if (!PyArg_ParseTuple(PyList_GetItem(tables, v), "OO", &place, &counts) ||
            live_open(&t, place, counts, PyList_GetItem(columns, v), classes, 0) < 0)
            goto done;
        size_t size = (2 * t.n + 2) * sizeof(double), wanted = size + t.n * t.classes * 4;
        if (wanted > space) {
            free(room);
            room = malloc(space = wanted);
        }
        found = room ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * t.n)) : PyErr_NoMemory();
        int failed = !found || PyList_Append(rows, found) < 0;
        if (!failed) {
            live_gather(&t, room + size, (int32_t *)PyBytes_AsString(found));
            failed = ask_view(questions, v, room + size, t.n, t.classes, (double *)room, said) < 0;
        }
        Py_XDECREF(found);
        live_close(&t);
        if (failed)
            goto done;
    }
    result = PyTuple_Pack(2, said, rows);
done:
    free(room);
    Py_XDECREF(said);
    Py_XDECREF(rows);
    return result;
}

static int is_empty(const int32_t *row, size_t classes)
{
    for (size_t k = 0; k < classes; k++)
        if (row[k])
            return 0;
    return 1;
}

/* The rows of the columns from `start` on: those that are known, or looked up. */
static size_t known_rows(const Live *t, size_t start, int32_t *row, const int32_t *known)
{
    if (!known)
        return live_rows(t, start, row);
    size_t n = t->n - start < CHUNK ? t->n - start : CHUNK;
    memcpy(row, known + start, n * sizeof *row);
    for (size_t i = 0; i < n; i++) {
        if (row[i] < 0) /* it may have got one since */
            row[i] = ((const int32_t *)t->place.buf)[word((const uint8_t *)t->columns.buf + 4 * (start + i))];
        if (row[i] >= 0 && (size_t)row[i] >= t->rows)
            row[i] = -1;
#if defined(__GNUC__)
        if (row[i] >= 0)
            __builtin_prefetch((const int32_t *)t->counts.buf + (size_t)row[i] * t->classes);
#endif
    }
    return n;
}

PyDoc_STRVAR(count_row_doc,
             "count_row(place, counts, classes, columns, c, sign, size, known=None)\n--\n\n"
             "Add a document of class c to a table in memory (sign 1), or take it out (-1): (size, change of the columns with documents).\n\n"
             "size: rows of `counts` in use; there must be room for all columns. known: the rows of the columns, as consult() of the same\n"
             "table gave them. ValueError, and nothing changed, where a count would go below zero.");
static PyObject *count_row(PyObject *module, PyObject *args)
{
    PyObject *place, *counts, *columns, *given = Py_None;
    Py_ssize_t classes, c, size, alive = 0;
    int sign;
    Live t;
    Py_buffer rows = {0};
    if (!PyArg_ParseTuple(args, "OOnOnin|O:count_row", &place, &counts, &classes, &columns, &c, &sign, &size, &given) ||
        (given != Py_None && PyObject_GetBuffer(given, &rows, PyBUF_SIMPLE) < 0))
        return NULL;
    if (live_open(&t, place, counts, columns, classes, 1) < 0) {
        if (given != Py_None)
            PyBuffer_Release(&rows);
        return NULL;
    }
    int32_t row[CHUNK], *all = t.counts.buf;
    const int32_t *known = given == Py_None ? NULL : rows.buf;
    const char *wrong = c < 0 || (size_t)c >= t.classes || size < 0 || (sign > 0 && (size_t)size + t.n > t.rows) ? "there is no room in the table" : NULL;
    if (known && rows.len != (Py_ssize_t)(4 * t.n))
        wrong = "there must be a known row for every column";
    for (size_t start = 0, n; sign < 0 && !wrong && start < t.n; start += n) {
        n = known_rows(&t, start, row, known);
        for (size_t i = 0; i < n; i++)
            if (row[i] < 0 || all[(size_t)row[i] * t.classes + (size_t)c] < 1)
                wrong = "Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed.";
    }
    for (size_t start = 0, n; !wrong && start < t.n; start += n) {
        n = known_rows(&t, start, row, known);
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
    if (known)
        PyBuffer_Release(&rows);
    if (wrong) {
        PyErr_SetString(PyExc_ValueError, wrong);
        return NULL;
    }
    return Py_BuildValue("nn", size, alive);
}

/* ------------------------------------------------------------------------------------------------ rows of the journal */

/* Ascending columns as gaps of two bytes; 65535 stands for so many more, and go on. How many there will be, -1 if not ascending. */
static Py_ssize_t packed_words(const uint8_t *p, size_t n)
{
    size_t words = n;
    uint32_t next = 0;
    int ascending = 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t column = word(p + 4 * i), gap = column - next;
        ascending &= column >= next;
        if (gap >= 65535)
            words += gap / 65535;
        next = column + 1;
    }
    return ascending ? (Py_ssize_t)words : -1;
}

static uint8_t *pack_words(const uint8_t *p, size_t n, uint8_t *out)
{
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t gap = word(p + 4 * i) - next;
        for (; gap >= 65535; gap -= 65535, out += 2)
            memset(out, 0xFF, 2);
        memcpy(out, &gap, 2);
        out += 2;
        next = word(p + 4 * i) + 1;
    }
    return out;
}

PyDoc_STRVAR(pack_views_doc,
             "pack_views(views)\n--\n\nThe columns of each view, ascending uint32, as gaps of two bytes; 65535\n"
             "stands for so many more, and go on. Before each view how many such words it takes: uint32.");
static PyObject *pack_views(PyObject *module, PyObject *views)
{
    PyObject *result = NULL;
    if (!PyList_Check(views)) {
        PyErr_SetString(PyExc_TypeError, "views must be a list");
        return NULL;
    }
    Py_ssize_t n = PyList_Size(views), opened = 0, size = 4 * n;
    struct { Py_buffer columns; Py_ssize_t words; } *all = calloc((size_t)n + 1, sizeof *all);
    if (!all)
        return PyErr_NoMemory();
    for (; opened < n; opened++) {
        Py_buffer *columns = &all[opened].columns;
        if (PyObject_GetBuffer(PyList_GetItem(views, opened), columns, PyBUF_SIMPLE) < 0)
            goto done;
        all[opened].words = packed_words(columns->buf, (size_t)columns->len / 4);
        if (all[opened].words < 0 || all[opened].words > 0xFFFFFFFF) {
            PyErr_SetString(PyExc_ValueError, "columns must be ascending");
            PyBuffer_Release(columns);
            goto done;
        }
        size += 2 * all[opened].words;
    }
    if ((result = PyBytes_FromStringAndSize(NULL, size))) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(result);
        for (Py_ssize_t v = 0; v < n; v++) {
            uint32_t words = (uint32_t)all[v].words;
            memcpy(out, &words, 4);
            out = pack_words(all[v].columns.buf, (size_t)all[v].columns.len / 4, out + 4);
        }
    }
done:
    while (opened-- > 0)
        PyBuffer_Release(&all[opened].columns);
    free(all);
    return result;
}

PyDoc_STRVAR(unpack_columns_doc, "unpack_columns(packed, start, words)\n--\n\nWhat pack_views wrote as so many words of a view, from a byte on: ascending uint32.");
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
                                  {"consult", consult, METH_VARARGS, consult_doc},
                                  {"count_row", count_row, METH_VARARGS, count_row_doc},
                                  {"pack_views", pack_views, METH_O, pack_views_doc},
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
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "surebayes.kernels._lookup", module_doc, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__lookup(void) { return PyModuleDef_Init(&definition); }
