/* Packed columns of journal rows, and hashed tokens. */
#include "../hashing.h"
#include "pool.h"

/* ------------------------------------------------------------------------------------------------ rows of the journal
 */

/* The number of two-byte gaps for ascending columns, where 65535 stands for a longer gap that continues in the
 * next number; -1 if the columns don't ascend. */
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

const char pack_views_doc[] =
    "pack_views(views)\n--\n\n"
    "Pack the columns of each view, ascending uint32, as gaps of two bytes; 65535 means 'add it and read "
    "on'. Each view is preceded by its number of words as uint32.";
PyObject *pool_pack_views(PyObject *module, PyObject *views)
{
    PyObject *result = NULL;
    if (!PyList_Check(views)) {
        PyErr_SetString(PyExc_TypeError, "views must be a list");
        return NULL;
    }
    Py_ssize_t n = PyList_Size(views), opened = 0, size = 4 * n;
    struct {
        Py_buffer columns;
        Py_ssize_t words;
    } *all = calloc((size_t)n + 1, sizeof *all);
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

const char unpack_columns_doc[] =
    "unpack_columns(packed, start, words)\n--\n\n"
    "Read the columns of a view from the result of pack_views: `words` words from a byte on.";
PyObject *pool_unpack_columns(PyObject *module, PyObject *args)
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

/* ------------------------------------------------------------------------------------------------ hashed tokens */

const char hash_tokens_doc[] =
    "hash_tokens(tokens, width)\n--\n\n"
    "Return the columns of a list of bytes as uint32, equal to those of scikit-learn's HashingVectorizer.";
PyObject *pool_hash_tokens(PyObject *module, PyObject *args)
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
        out[i] = column_of(murmur3_of((const uint8_t *)text, (size_t)size, false), width);
    }
    return result;
}

const char hash_listed_doc[] =
    "hash_listed(listed, width)\n--\n\n"
    "Return the columns of concatenated tokens, each after its size as uint16; equal to `hash_tokens` of "
    "a list.";
PyObject *pool_hash_listed(PyObject *module, PyObject *args)
{
    const char *listed;
    Py_ssize_t size, n = 0, at;
    unsigned int width;
    (void)module;
    if (!PyArg_ParseTuple(args, "y#I:hash_listed", &listed, &size, &width))
        return NULL;
    const uint8_t *p = (const uint8_t *)listed;
#define SIZE_AT(place) ((Py_ssize_t)(p[place] | p[(place) + 1] << 8))
    for (at = 0; at + 2 <= size; at += 2 + SIZE_AT(at))
        n++;
    if (at != size || width < 1 || width > 0x7FFFFFFF) {
        PyErr_SetString(PyExc_ValueError,
                        at == size ? "width must be between 1 and 2147483647" : "the last token is truncated");
        return NULL;
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, 4 * n);
    char *out = result ? PyBytes_AsString(result) : NULL;
    for (at = 0; result && at < size; at += 2 + SIZE_AT(at), out += 4) {
        uint32_t column = column_of(murmur3_of(p + at + 2, (size_t)SIZE_AT(at), false), width);
        memcpy(out, &column, 4);
    }
#undef SIZE_AT
    return result;
}
