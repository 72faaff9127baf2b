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

enum { BLOCK = 512, ENTRIES = BLOCK / 8, MEMO = 256 };

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

/* ------------------------------------------------------------------------------------------------ columns */

static void radix_sort(uint32_t *a, uint32_t *spare, size_t n)
{
    for (int shift = 0; shift < 32; shift += 8) {
        size_t start[257] = {0};
        for (size_t i = 0; i < n; i++)
            start[(a[i] >> shift & 255) + 1]++;
        if (n && start[(a[0] >> shift & 255) + 1] == n) /* one digit for all: in order already */
            continue;
        for (int d = 0; d < 256; d++)
            start[d + 1] += start[d];
        for (size_t i = 0; i < n; i++)
            spare[start[a[i] >> shift & 255]++] = a[i];
        memcpy(a, spare, n * sizeof *a);
    }
}

PyDoc_STRVAR(sorted_columns_doc, "sorted_columns(ids)\n--\n\nColumns (uint32) in ascending order, each once.");
static PyObject *sorted_columns(PyObject *module, PyObject *ids)
{
    Py_buffer view;
    if (PyObject_GetBuffer(ids, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    size_t n = (size_t)view.len / 4, kept = 0;
    PyObject *result = NULL;
    uint32_t *a = malloc((2 * n + 1) * sizeof *a);
    if (!a) {
        PyBuffer_Release(&view);
        return PyErr_NoMemory();
    }
    memcpy(a, view.buf, 4 * n);
    PyBuffer_Release(&view);
    radix_sort(a, a + n, n);
    for (size_t i = 0; i < n; i++)
        if (!i || a[i] != a[i - 1])
            a[kept++] = a[i];
    result = PyBytes_FromStringAndSize((const char *)a, (Py_ssize_t)(4 * kept));
    free(a);
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

typedef struct { double smoothing, memo[MEMO]; } Logs;

static double log_of(Logs *logs, double count)
{
    if (count < MEMO && count == (double)(int)count) {
        double *known = &logs->memo[(int)count];
        if (*known != *known)
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

/* Set all but the `top` largest (by absolute value; of equals the first) to 0. */
static int keep_strongest(double *lo, size_t n, size_t top)
{
    double *sizes = malloc(n * sizeof *sizes);
    if (!sizes)
        return -1;
    for (size_t i = 0; i < n; i++)
        sizes[i] = fabs(lo[i]);
    double limit = kth_largest(sizes, n, top);
    free(sizes);
    size_t above = 0;
    for (size_t i = 0; i < n; i++)
        above += fabs(lo[i]) > limit;
    for (size_t i = 0, level = top - above; i < n; i++) {
        double size = fabs(lo[i]);
        if (size > limit)
            continue;
        if (size == limit && level)
            level--;
        else
            lo[i] = 0.0;
    }
    return 0;
}

PyDoc_STRVAR(opinion_doc,
             "opinion(counts, classes, c, inside, outside, smoothing, width, top, skip, copies_inside, copies_outside)\n--\n\n"
             "Kolcz & Yih, eq. (3) with weights |log-odds| from the current sums: sum(lo |lo|) / sum(|lo|) over a document's columns.\n\n"
             "counts: as counts_at gives them. inside, outside: sums of all counts of class c and of the others. width: columns that\n"
             "smoothing counts. top: take the strongest so many (0: all). skip: leave columns out that no class has.\n"
             "copies_*: as if the document had been learnt so many times more, by class c and by the others.");
static PyObject *opinion(PyObject *module, PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t classes, c, top;
    int skip;
    double inside, outside, smoothing, width, copies_inside, copies_outside;
    if (!PyArg_ParseTuple(args, "y*nnddddnpdd:opinion", &buffer, &classes, &c, &inside, &outside, &smoothing, &width, &top, &skip,
                          &copies_inside, &copies_outside))
        return NULL;
    if (classes < 1 || c < 0 || c >= classes || top < 0 || !(smoothing > 0)) {
        PyBuffer_Release(&buffer);
        PyErr_SetString(PyExc_ValueError, "opinion needs 0 <= c < classes, top >= 0 and smoothing above 0");
        return NULL;
    }
    size_t n = (size_t)buffer.len / 4 / (size_t)classes, used = 0;
    const uint8_t *counts = buffer.buf;
    double *lo = malloc((n + 1) * sizeof *lo);
    if (!lo) {
        PyBuffer_Release(&buffer);
        return PyErr_NoMemory();
    }
    Logs logs;
    logs.smoothing = smoothing;
    for (int i = 0; i < MEMO; i++)
        logs.memo[i] = NAN;
    double inside_total = log(inside + copies_inside * (double)n + smoothing * width);
    double outside_total = log(outside + copies_outside * (double)n + smoothing * width);
    for (size_t i = 0; i < n; i++) {
        uint64_t all = 0;
        for (Py_ssize_t k = 0; k < classes; k++)
            all += word(counts + 4 * (i * (size_t)classes + (size_t)k));
        if (skip && !all && copies_inside + copies_outside == 0)
            continue;
        uint32_t own = word(counts + 4 * (i * (size_t)classes + (size_t)c));
        double a = (double)own + copies_inside, b = (double)(all - own) + copies_outside;
        lo[used++] = (log_of(&logs, a) - inside_total) - (log_of(&logs, b) - outside_total);
    }
    PyBuffer_Release(&buffer);
    if (top && (size_t)top < used && keep_strongest(lo, used, (size_t)top) < 0) {
        free(lo);
        return PyErr_NoMemory();
    }
    double sum = 0.0, weight = 0.0;
    for (size_t i = 0; i < used; i++) {
        double w = fabs(lo[i]);
        sum += w * lo[i];
        weight += w;
    }
    free(lo);
    return PyFloat_FromDouble(weight > 0 ? sum / weight : 0.0);
}

static PyMethodDef functions[] = {{"block_checksums", block_checksums, METH_O, block_checksums_doc},
                                  {"sorted_columns", sorted_columns, METH_O, sorted_columns_doc},
                                  {"counts_at", counts_at, METH_VARARGS, counts_at_doc},
                                  {"pack_entries", pack_entries, METH_VARARGS, pack_entries_doc},
                                  {"opinion", opinion, METH_VARARGS, opinion_doc},
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
