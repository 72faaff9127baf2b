/* The function `place`, which writes rows into the arrays of a sparse matrix. */
#include "module.h"
#include "python.h"

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

/* Write rows, sorted by column; return the number of entries, -1 if an id is not in the map, -2 without memory, -3 if
 * lengths changed in the meantime. */
static int64_t place_rows(Placing *p)
{
    uint32_t *lengths = p->lengths.buf;
    const uint32_t *ids = p->ids.buf;
    const int32_t *counts = p->counts.buf, *map = p->has_map ? p->map.buf : NULL;
    size_t rows = items_in(&p->lengths, 4), mapped = p->has_map ? items_in(&p->map, 4) : 0x80000000u, longest = 0,
           at = p->offset, left = items_in(&p->ids, 4);
    for (size_t r = 0; r < rows; r++)
        longest = lengths[r] > longest ? lengths[r] : longest;
    uint64_t *row = malloc((longest + 1) * 2 * sizeof *row);
    if (!row)
        return -2;
    int32_t *columns = p->columns.buf;
    for (size_t r = 0; r < rows; r++) {
        size_t n = 0, length = lengths[r];
        if (length > left || length > longest) { /* another thread writes to the buffer */
            free(row);
            return -3;
        }
        left -= length;
        for (size_t i = 0; i < length; i++) {
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
        ids += length;
        counts += length;
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
        PyErr_SetString(PyExc_ValueError,
                        "lengths, ids and counts are inconsistent: pass the result of count() unchanged");
        return -1;
    }
    room = room < room_too ? room : room_too;
    if (p->offset > room || ids > room - p->offset) {
        PyErr_Format(PyExc_ValueError, "columns and values have room for %zu entries, not for %zu at offset %zu", room,
                     ids, p->offset);
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(
    place_doc,
    "place(lengths, ids, counts, map, columns, values, offset=0, code='q', binary=False)\n--\n\n"
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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOOO|nCp:place", names, &from[0], &from[1], &from[2], &from[3],
                                     &from[4], &from[5], &offset, &code, &binary))
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
    int64_t written = -4;
    if (have == 6 && placing_check(&p, width) == 0) {
        Py_BEGIN_ALLOW_THREADS
        written = place_rows(&p);
        Py_END_ALLOW_THREADS
        if (written == -1)
            PyErr_SetString(PyExc_ValueError, "an id is not in the map: the map must have a column for every term");
        if (written == -2)
            PyErr_NoMemory();
        if (written == -3)
            PyErr_SetString(PyExc_ValueError, "lengths changed while the rows were written: give a buffer of its own");
    }
    for (int i = 0; i < 6; i++)
        if (taken[i])
            PyBuffer_Release(views[i]);
    return written < 0 ? NULL : PyLong_FromLongLong(written);
}

PyMethodDef placing_functions[] = {
    {"place", (PyCFunction)(void (*)(void))place, METH_VARARGS | METH_KEYWORDS, place_doc},
    {NULL, NULL, 0, NULL},
};
