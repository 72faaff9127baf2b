/* The functions `count`, `hash_count` and `hash_rows`, which convert documents to rows. */
#include "documents.h"
#include "module.h"

static Status note_length(Workspace *ws, size_t index, void *lengths)
{
    ((uint32_t *)lengths)[index] = (uint32_t)(ws->used - ws->row);
    return OK;
}

/* Return the rows of a workspace as (lengths, ids, counts); takes over `lengths`. */
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
    if (each_document(ws, documents, note_length, lengths) < 0) {
        free(lengths);
        return NULL;
    }
    return hand_over(ws, lengths, n);
}

PyDoc_STRVAR(count_doc,
             "count(analyzer, vocabulary, documents, grow=False)\n--\n\n"
             "Count the tokens of a list of documents: (lengths, ids, counts) as uint32, uint32 and int32.\n\n"
             "A row has lengths[i] pairs of vocabulary id and count, in the order in which they were first seen.\n"
             "grow: add unknown tokens to the vocabulary; otherwise they are left out.");
static PyObject *count(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"analyzer", "vocabulary", "documents", "grow", NULL};
    State *state = PyModule_GetState(module);
    PyObject *analyzer, *given, *documents;
    int grow = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O|p:count", names, state->analyzer_type, &analyzer,
                                     state->vocabulary_type, &given, &documents, &grow) ||
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

PyDoc_STRVAR(hash_count_doc,
             "hash_count(analyzer, n_features, documents, alternate_sign=False)\n--\n\n"
             "As count(), but a token's id is its column: scikit-learn's 32-bit MurmurHash3 modulo n_features.");
static PyObject *hash_count(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"analyzer", "n_features", "documents", "alternate_sign", NULL};
    State *state = PyModule_GetState(module);
    PyObject *analyzer, *documents;
    Py_ssize_t n_features;
    int alternate_sign = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nO|p:hash_count", names, state->analyzer_type, &analyzer,
                                     &n_features, &documents, &alternate_sign) ||
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
    uint32_t *columns, *lengths; /* lengths: of the rows so far */
    size_t *ends, used, room, text_room;
    uint8_t *text;
    bool counted;
} Terms;

static void terms_close(Terms *terms)
{
    free(terms->columns), free(terms->ends), free(terms->text);
}

/* Read the columns of one document. */
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
        PyErr_Format(PyExc_ValueError, "terms must be columns below %lu as uint32, or lists of str",
                     (unsigned long)width);
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
        PyErr_Format(PyExc_TypeError, "terms must be lists of str, or their columns as bytes, got %R",
                     (PyObject *)Py_TYPE(list));
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
            if (!(bytes = PyUnicode_AsEncodedString(term, "utf-8", "replace")) ||
                PyBytes_AsStringAndSize(bytes, &text, &size) < 0)
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
    Status status = settle_columns(ws, terms->counted);
    terms->lengths[index] = (uint32_t)(ws->used - ws->row);
    return status;
}

/* An array of a workspace: handed over if it is too large to keep for the next call, otherwise copied. */
static PyObject *kept_or_given(State *state, void **array, size_t *room, size_t items)
{
    if (items <= 1u << 20)
        return block_copy(state, *array, items * sizeof(uint32_t));
    PyObject *result = block_of(state, *array, items * sizeof(uint32_t));
    *array = NULL;
    *room = 0;
    return result;
}

PyDoc_STRVAR(hash_rows_doc,
             "hash_rows(analyzer, n_features, documents, terms=None, counted=False)\n--\n\n"
             "Return the hashed columns of the tokens of documents: (lengths, columns) as uint32, ascending and "
             "distinct in each row.\n\n"
             "terms: for each document a list of further str to hash, or their columns: bytes of uint32. counted: "
             "return (lengths, columns, counts), for words and bytes.");
static PyObject *hash_rows(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"analyzer", "n_features", "documents", "terms", "counted", NULL};
    State *state = PyModule_GetState(module);
    PyObject *analyzer, *documents, *more = Py_None;
    Py_ssize_t n_features;
    int counted = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nO|Op:hash_rows", names, state->analyzer_type, &analyzer,
                                     &n_features, &documents, &more, &counted) ||
        !is_list(documents))
        return NULL;
    if (n_features < 1 || n_features > 0x7fffffff)
        return PyErr_Format(PyExc_ValueError, "n_features must be between 1 and 2147483647, got %zd", n_features);
    Kind kind = ((Analyzer *)analyzer)->kind;
    if (counted && kind != WORDS && kind != BYTES)
        return PyErr_Format(PyExc_ValueError, "hash_rows counts words and bytes only");
    Workspace *ws = workspace_take(state);
    if (!ws)
        return NULL;
    ws->analyzer = (Analyzer *)analyzer;
    ws->table = NULL;
    ws->columns = (uint32_t)n_features;
    ws->alternate_sign = false;
    ws->presence = true;
    size_t n = (size_t)PyList_Size(documents);
    Terms terms = {.lengths = calloc(n ? n : 1, sizeof(uint32_t)), .counted = counted};
    PyObject *result = NULL, *lengths = NULL, *columns = NULL, *counts = NULL;
    if (!terms.lengths)
        PyErr_NoMemory();
    else if ((more != Py_None && terms_open(&terms, more, (Py_ssize_t)n, ws->columns) < 0) ||
             each_document(ws, documents, settle_row, &terms) < 0)
        free(terms.lengths);
    else if ((lengths = block_of(state, terms.lengths, n * sizeof(uint32_t)))) {
        columns = kept_or_given(state, (void **)&ws->ids, &ws->ids_room, ws->used);
        counts = counted ? kept_or_given(state, (void **)&ws->counts, &ws->counts_room, ws->used) : NULL;
        if (columns && (counts || !counted))
            result = counted ? PyTuple_Pack(3, lengths, columns, counts) : PyTuple_Pack(2, lengths, columns);
    }
    Py_XDECREF(lengths);
    Py_XDECREF(columns);
    Py_XDECREF(counts);
    terms_close(&terms);
    workspace_give_back(ws);
    return result;
}

PyMethodDef counting_functions[] = {
    {"count", (PyCFunction)(void (*)(void))count, METH_VARARGS | METH_KEYWORDS, count_doc},
    {"hash_count", (PyCFunction)(void (*)(void))hash_count, METH_VARARGS | METH_KEYWORDS, hash_count_doc},
    {"hash_rows", (PyCFunction)(void (*)(void))hash_rows, METH_VARARGS | METH_KEYWORDS, hash_rows_doc},
    {NULL, NULL, 0, NULL},
};
