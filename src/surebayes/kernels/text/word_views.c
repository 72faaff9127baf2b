/* The function `hash_word_views`, which makes several rows per document in one pass over its words. */
#include "documents.h"
#include "module.h"

typedef struct {
    size_t high; /* maximum words of an n-gram */
    bool counted;
    PyObject *terms; /* a list of bytes, the columns of further terms of each document, or NULL */
    uint32_t *lengths, *columns, *counts;
    size_t used, columns_room, counts_room;
} View;

typedef struct {
    View *views;
    size_t n, n_documents;
    const uint8_t **terms; /* by view and document, if any */
    size_t *n_terms;
} Cutting;

/* The number of words in a document that has a given number of n-grams of 1 to `high` words. */
static size_t words_of(size_t grams, size_t high)
{
    size_t words = (grams + high * (high - 1) / 2) / high;
    if (words >= high)
        return words;
    for (words = 0; words * (words + 1) / 2 < grams;)
        words++;
    return words;
}

/* A row of a view from the first columns of ws->found, and further ones. ws->spare keeps the columns in their original
 * order. */
static Status settle_view(Workspace *ws, View *view, size_t words, const uint32_t *all, const uint8_t *terms,
                          size_t n_terms, size_t index)
{
    size_t n = 0;
    for (size_t size = 1; size <= view->high && size <= words; size++)
        n += words - size + 1;
    ws->found_used = 0;
    if (found_room(ws, n + n_terms) != OK ||
        reserve(&view->columns, &view->columns_room, view->used + n + n_terms + 1, sizeof *view->columns) != OK ||
        (view->counted &&
         reserve(&view->counts, &view->counts_room, view->used + n + n_terms + 1, sizeof *view->counts) != OK))
        return NO_MEMORY;
    memcpy(ws->found, all, n * sizeof *ws->found);
    if (n_terms)
        memcpy(ws->found + n, terms, n_terms * sizeof *ws->found);
    n += n_terms;
    if (reserve(&ws->spare, &ws->spare_room, n + 1, sizeof *ws->spare) != OK)
        return NO_MEMORY;
    const uint32_t *sorted = sort_columns(ws->found, ws->spare, n, ws->columns);
    uint32_t *counts = view->counted ? view->counts + view->used : NULL;
    const size_t used = put_distinct(sorted, n, view->columns + view->used, counts);
    view->lengths[index] = (uint32_t)used;
    view->used += used;
    return OK;
}

static Status settle_views(Workspace *ws, size_t index, void *context)
{
    Cutting *cutting = context;
    size_t grams = ws->found_used, words = words_of(grams, ws->analyzer->high);
    /* sorting a view reorders ws->found: a copy is kept in memory that the words no longer need */
    if (reserve(&ws->edges, &ws->edges_room, grams + 1, sizeof *ws->edges) != OK)
        return NO_MEMORY;
    if (grams)
        memcpy(ws->edges, ws->found, grams * sizeof *ws->edges);
    for (size_t v = 0; v < cutting->n; v++) {
        size_t at = v * cutting->n_documents + index;
        Status status = settle_view(ws, &cutting->views[v], words, ws->edges, cutting->terms[at], cutting->n_terms[at],
                                    index);
        if (status != OK)
            return status;
    }
    return OK;
}

/* The columns of further terms: bytes of uint32 below the width. */
static int take_terms(Cutting *cutting, size_t v, uint32_t width)
{
    PyObject *list = cutting->views[v].terms;
    for (size_t d = 0; list && d < cutting->n_documents; d++) {
        char *bytes;
        Py_ssize_t size;
        PyObject *item = PyList_GetItem(list, (Py_ssize_t)d);
        if (!item || PyBytes_AsStringAndSize(item, &bytes, &size) < 0)
            return -1;
        bool fits = size % 4 == 0;
        for (Py_ssize_t i = 0; fits && i < size; i += 4)
            fits = little4((const uint8_t *)bytes + i) < width;
        if (!fits) {
            PyErr_Format(PyExc_ValueError, "terms must be columns below %u as uint32", width);
            return -1;
        }
        cutting->terms[v * cutting->n_documents + d] = (const uint8_t *)bytes;
        cutting->n_terms[v * cutting->n_documents + d] = (size_t)size / 4;
    }
    return 0;
}

static int take_views(Cutting *cutting, PyObject *given, size_t high, uint32_t width)
{
    size_t cells = cutting->n * cutting->n_documents + 1;
    cutting->views = calloc(cutting->n + 1, sizeof *cutting->views);
    cutting->terms = calloc(cells, sizeof *cutting->terms);
    cutting->n_terms = calloc(cells, sizeof *cutting->n_terms);
    if (!cutting->views || !cutting->terms || !cutting->n_terms) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t v = 0; v < cutting->n; v++) {
        View *view = &cutting->views[v];
        PyObject *terms, *item = PyList_GetItem(given, (Py_ssize_t)v);
        Py_ssize_t most;
        int counted;
        if (!item || !PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "a view is (high, counted, terms)");
            return -1;
        }
        if (!PyArg_ParseTuple(item, "npO", &most, &counted, &terms))
            return -1;
        bool listed = terms != Py_None;
        if (most < 1 || (size_t)most > high ||
            (listed && (!PyList_Check(terms) || (size_t)PyList_Size(terms) != cutting->n_documents))) {
            PyErr_Format(PyExc_ValueError, "a view needs n-grams of 1 to at most %zu words, and terms for each of %zu",
                         high, cutting->n_documents);
            return -1;
        }
        view->high = (size_t)most, view->counted = counted, view->terms = listed ? Py_NewRef(terms) : NULL;
        view->lengths = calloc(cutting->n_documents + 1, sizeof *view->lengths);
        if (!view->lengths) {
            PyErr_NoMemory();
            return -1;
        }
        if (take_terms(cutting, v, width) < 0)
            return -1;
    }
    return 0;
}

/* A view as (lengths, columns, counts or None). */
static PyObject *give_view(State *state, View *view, size_t n)
{
    PyObject *lengths = block_copy(state, view->lengths, n * sizeof *view->lengths);
    PyObject *columns = block_copy(state, view->columns, view->used * sizeof *view->columns);
    PyObject *counts = view->counted ? block_copy(state, view->counts, view->used * sizeof *view->counts)
                                     : Py_NewRef(Py_None);
    PyObject *result = lengths && columns && counts ? PyTuple_Pack(3, lengths, columns, counts) : NULL;
    Py_XDECREF(lengths);
    Py_XDECREF(columns);
    Py_XDECREF(counts);
    return result;
}

static void cutting_close(Cutting *cutting)
{
    for (size_t v = 0; cutting->views && v < cutting->n; v++) {
        View *view = &cutting->views[v];
        Py_XDECREF(view->terms);
        free(view->lengths);
        free(view->columns);
        free(view->counts);
    }
    free(cutting->views);
    free(cutting->terms);
    free(cutting->n_terms);
}

PyDoc_STRVAR(hash_word_views_doc,
             "hash_word_views(analyzer, n_features, documents, views)\n--\n\n"
             "Return several rows of each document from one pass over its words: for each view (lengths, columns, "
             "counts or None) as uint32, ascending and distinct in each row.\n\n"
             "analyzer: n-grams of 1 to the largest number of words. views: (high, counted, terms) of each: "
             "n-grams of 1 to `high` words, whether they are counted, and None or for each document the columns of "
             "further terms as bytes of uint32.");
static PyObject *hash_word_views(PyObject *module, PyObject *args)
{
    State *state = PyModule_GetState(module);
    PyObject *analyzer, *documents, *views, *result = NULL;
    Py_ssize_t n_features;
    if (!PyArg_ParseTuple(args, "O!nOO!:hash_word_views", state->analyzer_type, &analyzer, &n_features, &documents,
                          &PyList_Type, &views) ||
        !is_list(documents))
        return NULL;
    const Analyzer *cuts = (const Analyzer *)analyzer;
    if (n_features < 1 || n_features > 0x7fffffff || cuts->kind != WORDS || cuts->low != 1) {
        PyErr_SetString(PyExc_ValueError,
                        "hash_word_views needs an analyzer of 1 to some words, and 1 to 2**31 - 1 features");
        return NULL;
    }
    Workspace *ws = workspace_take(state);
    if (!ws)
        return NULL;
    ws->analyzer = cuts;
    ws->table = NULL;
    ws->columns = (uint32_t)n_features;
    ws->alternate_sign = false;
    ws->presence = true;
    Cutting cutting = {.n = (size_t)PyList_Size(views), .n_documents = (size_t)PyList_Size(documents)};
    if (take_views(&cutting, views, cuts->high, ws->columns) == 0 &&
        each_document(ws, documents, settle_views, &cutting) == 0)
        result = PyList_New(0);
    for (size_t v = 0; result && v < cutting.n; v++) {
        PyObject *view = give_view(state, &cutting.views[v], cutting.n_documents);
        if (!view || PyList_Append(result, view) < 0)
            Py_CLEAR(result);
        Py_XDECREF(view);
    }
    cutting_close(&cutting);
    workspace_give_back(ws);
    return result;
}

PyMethodDef word_views_functions[] = {{"hash_word_views", hash_word_views, METH_VARARGS, hash_word_views_doc},
                                      {NULL, NULL, 0, NULL}};
