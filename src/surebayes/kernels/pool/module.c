/* The kernel of the pool: counts of columns in tables, and the opinions of experts.
 *
 * tables.c: tables in memory and in files; counting.c: tables from many documents at once; stack.c: stacks of tables;
 * score.c: scores of documents; svm.c: second stages; packing.c: packed columns and hashed tokens; compression.c:
 * content of journal rows. `reference/pool.py` is the same in Python; keep them equal to the last bit of a score.
 */
#include "pool.h"

#ifndef _WIN32
#include <signal.h>
#include <unistd.h>
#endif

void buffers_close(Buffers *buffers)
{
    while (buffers->n)
        PyBuffer_Release(&buffers->views[--buffers->n]);
}

void *buffers_add(Buffers *buffers, PyObject *from, size_t item, int writable, size_t *count, const char *name)
{
    static double nothing;
    Py_buffer *view = &buffers->views[buffers->n];
    if (buffers->n == MOST_BUFFERS) {
        PyErr_SetString(PyExc_ValueError, "there are too many tables and experts for one call");
        return NULL;
    }
    if (PyObject_GetBuffer(from, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return NULL;
    buffers->n++;
    if (view->len && ((size_t)view->len % item || (uintptr_t)view->buf % item)) {
        PyErr_Format(PyExc_ValueError, "%s: expected an aligned array of %zu-byte items, got %zd bytes", name, item,
                     view->len);
        return NULL;
    }
    *count = (size_t)view->len / item;
    return view->len ? view->buf : &nothing;
}

void *buffers_attr(Buffers *buffers, PyObject *object, const char *name, size_t item, int writable, size_t *count)
{
    PyObject *from = PyObject_GetAttrString(object, name);
    if (!from)
        return NULL;
    void *result = buffers_add(buffers, from, item, writable, count, name);
    Py_DECREF(from); /* the buffer keeps a reference */
    return result;
}

int whole_attr(PyObject *object, const char *name, int64_t low, int64_t high, int64_t *value)
{
    PyObject *from = PyObject_GetAttrString(object, name);
    if (!from)
        return -1;
    *value = PyLong_AsLongLong(from);
    Py_DECREF(from);
    if (*value == -1 && PyErr_Occurred())
        return -1;
    if (*value < low || *value > high) {
        PyErr_Format(PyExc_ValueError, "%s must be an integer from %lld to %lld, got %lld", name, (long long)low,
                     (long long)high, (long long)*value);
        return -1;
    }
    return 0;
}

static int outside(void)
{
    PyErr_SetString(PyExc_ValueError, "a document or a column is out of range");
    return -1;
}

int rows_open_unseen(Rows *rows, Buffers *buffers, PyObject *from, PyObject *which)
{
    size_t ends, n_times;
    memset(rows, 0, sizeof *rows);
    if (!(rows->indptr = buffers_attr(buffers, from, "indptr", 8, 0, &ends)) ||
        !(rows->columns = buffers_attr(buffers, from, "columns", 4, 0, &rows->n_columns)))
        return -1;
    PyObject *times = PyObject_GetAttrString(from, "times");
    if (!times)
        return -1;
    int counted = times != Py_None;
    if (counted && !(rows->times = buffers_add(buffers, times, 4, 0, &n_times, "times"))) {
        Py_DECREF(times);
        return -1;
    }
    Py_DECREF(times);
    if (which != Py_None && !(rows->which = buffers_add(buffers, which, 8, 0, &rows->n_which, "which")))
        return -1;
    int good = ends > 0 && (!counted || n_times == rows->n_columns);
    rows->n_documents = ends - (ends > 0);
    for (size_t i = 0; good && i < rows->n_documents; i++)
        good = 0 <= rows->indptr[i] && rows->indptr[i] <= rows->indptr[i + 1] &&
               (uint64_t)rows->indptr[i + 1] <= rows->n_columns;
    if (!rows->which)
        rows->n_which = rows->n_documents;
    for (size_t i = 0; good && i < rows->n_which; i++) {
        int64_t d = rows_at(rows, i);
        good = 0 <= d && (uint64_t)d < rows->n_documents;
        if (good) {
            size_t length = (size_t)(rows->indptr[d + 1] - rows->indptr[d]);
            rows->longest = length > rows->longest ? length : rows->longest;
            rows->total += length;
        }
    }
    return good ? 0 : outside();
}

int rows_open(Rows *rows, Buffers *buffers, PyObject *from, PyObject *which, uint64_t width)
{
    if (rows_open_unseen(rows, buffers, from, which) < 0)
        return -1;
    uint32_t beyond = 0;
    for (size_t i = 0; i < rows->n_which; i++) {
        const int64_t d = rows_at(rows, i);
        for (const int32_t *c = rows->columns + rows->indptr[d], *last = rows->columns + rows->indptr[d + 1]; c < last;
             c++)
            beyond |= (uint32_t)((uint32_t)*c >= width);
    }
    return beyond ? outside() : 0;
}

/* Reading a mapped file that another process has truncated raises SIGBUS: the process can only end with the exit code
 * for "try again". */
#ifndef _WIN32
static void end_after_bus_error(int number)
{
    static const char sentence[] = "surebayes: a file of the model was truncated while being read; try again\n";
    (void)number;
    if (write(2, sentence, sizeof sentence - 1) < 0)
        _exit(75);
    _exit(75);
}
#endif

static const char end_on_bus_error_doc[] =
    "end_on_bus_error()\n--\n\n"
    "Make the process exit with code 75, instead of dying from a signal, when a mapped file is truncated.";

static PyObject *pool_end_on_bus_error(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
#ifndef _WIN32
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = end_after_bus_error;
    sigaction(SIGBUS, &action, NULL);
#endif
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"end_on_bus_error", pool_end_on_bus_error, METH_NOARGS, end_on_bus_error_doc},
    {"add", pool_add, METH_VARARGS, add_doc},
    {"take", pool_take, METH_VARARGS, take_doc},
    {"count", pool_count, METH_VARARGS, count_doc},
    {"load", pool_load, METH_VARARGS, load_doc},
    {"totals", pool_totals, METH_O, totals_doc},
    {"pack_entries", pool_pack_entries, METH_VARARGS, pack_entries_doc},
    {"block_checksums", pool_block_checksums, METH_O, block_checksums_doc},
    {"guide", pool_guide, METH_VARARGS, guide_doc},
    {"checksum", pool_checksum, METH_O, checksum_doc},
    {"lesson_alive", pool_lesson_alive, METH_VARARGS, lesson_alive_doc},
    {"lesson_entries", pool_lesson_entries, METH_VARARGS, lesson_entries_doc},
    {"merge", pool_merge, METH_VARARGS, merge_doc},
    {"score", (PyCFunction)(void (*)(void))pool_score, METH_VARARGS | METH_KEYWORDS, score_doc},
    {"weigh", (PyCFunction)(void (*)(void))pool_weigh, METH_VARARGS | METH_KEYWORDS, weigh_doc},
    {"count_missing", pool_count_missing, METH_VARARGS, count_missing_doc},
    {"separate", pool_separate, METH_VARARGS, separate_doc},
    {"pack_views", pool_pack_views, METH_O, pack_views_doc},
    {"unpack_columns", pool_unpack_columns, METH_VARARGS, unpack_columns_doc},
    {"hash_tokens", pool_hash_tokens, METH_VARARGS, hash_tokens_doc},
    {"hash_listed", pool_hash_listed, METH_VARARGS, hash_listed_doc},
    {"compress", pool_compress, METH_VARARGS, compress_doc},
    {"decompress", pool_decompress, METH_VARARGS, decompress_doc},
    {"row_checks", pool_row_checks, METH_VARARGS, row_checks_doc},
    {NULL, NULL, 0, NULL}};

static int start(PyObject *module)
{
    make_crc_table();
    make_log_frequencies();
    return 0;
}

static void end(void *module)
{
    PoolState *state = PyModule_GetState(module);
    if (state)
        log_tables_free(state);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, start}, {0, NULL}};
PyDoc_STRVAR(module_doc, "Columns to counts to opinions. See surebayes.kernels.reference.pool for the same in Python.");
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "surebayes.kernels._pool", module_doc, sizeof(PoolState), functions, slots, NULL, NULL, end};

PyMODINIT_FUNC PyInit__pool(void)
{
    return PyModuleDef_Init(&definition);
}
