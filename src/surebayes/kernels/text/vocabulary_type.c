/* The Python type Vocabulary. */
#include "module.h"
#include "vocabulary.h"

int add_terms(Table *table, PyObject *terms)
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

PyDoc_STRVAR(vocabulary_doc, "Vocabulary(ends=None, text=None)\n--\n\n"
                             "Terms, numbered in the order in which they were first seen.\n\n"
                             "ends, text: the result of dump().");

int may_read(const Vocabulary *self)
{
    if (!self->writer)
        return 0;
    PyErr_SetString(PyExc_RuntimeError,
                    "another thread is adding terms to this vocabulary: wait for it, or give each thread its own");
    return -1;
}

int may_write(const Vocabulary *self)
{
    if (!self->writer && !self->readers)
        return 0;
    PyErr_SetString(PyExc_RuntimeError,
                    "another thread is using this vocabulary: wait for it, or give each thread its own");
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

/* Add the terms of a dump, which isn't trusted. */
static int vocabulary_load(Vocabulary *self, PyObject *ends_from, PyObject *text_from)
{
    Py_buffer ends, text;
    if (get_items(ends_from, &ends, 1, false, "ends") < 0) /* bytes: may be unaligned */
        return -1;
    if (get_items(text_from, &text, 1, false, "text") < 0) {
        PyBuffer_Release(&ends);
        return -1;
    }
    uint64_t start = 0, end;
    size_t n = items_in(&ends, 8);
    uint32_t same = 0;
    int failed = ends.len % 8 != 0;
    if (failed)
        PyErr_Format(PyExc_ValueError, "ends: expected a buffer of 8-byte items, got %zd bytes", ends.len);
    for (size_t i = 0; i < n && !failed; start = end, i++) {
        memcpy(&end, (const uint8_t *)ends.buf + 8 * i, 8);
        if (end < start || end > (uint64_t)text.len) {
            PyErr_Format(PyExc_ValueError, "ends must rise and stay within the text: term %zu ends wrongly", i);
            failed = 1;
        } else if (end - start > MAX_DOCUMENT)
            failed = raise_status(NO_MEMORY) < 0;
    }
    if (!failed) {
        Status status = table_fill(&self->table, text.buf, ends.buf, n, &same);
        failed = status != OK && raise_status(status) < 0;
    }
    if (!failed && self->table.terms < n) {
        PyErr_Format(PyExc_ValueError, "term %zu is the same as term %u", self->table.terms, (unsigned)same);
        failed = 1;
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

static Py_ssize_t vocabulary_length(PyObject *self)
{
    return (Py_ssize_t)((Vocabulary *)self)->table.terms;
}

PyDoc_STRVAR(vocabulary_add_doc,
             "add(terms)\n--\n\nAdd str or bytes terms that are not there yet, in the given order.");
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
    PyObject *bytes = PyUnicode_Check(term) ? PyUnicode_AsEncodedString(term, "utf-8", "surrogatepass")
                                            : Py_NewRef(term);
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

PyDoc_STRVAR(vocabulary_merge_doc,
             "merge(other)\n--\n\nAdd the terms of another vocabulary; for each of its ids the id here, as uint32.");
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
    Status status;
    to->writer = true;
    from->readers++;
    Py_BEGIN_ALLOW_THREADS
    status = table_merge(&to->table, &from->table, ids);
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

PyDoc_STRVAR(vocabulary_order_doc,
             "order(first=0)\n--\n\nThe ids from `first` on, in the order of their terms, as uint32.");
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

PyDoc_STRVAR(vocabulary_terms_doc,
             "terms(ids, latin=False)\n--\n\n"
             "Return the terms of a buffer of uint32 ids, as a list of str; latin=True: one character per byte.");
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

PyDoc_STRVAR(vocabulary_select_doc,
             "select(ids)\n--\n\nA new vocabulary of the terms with these uint32 ids, in this order.");
static PyObject *vocabulary_select(PyObject *self, PyObject *from)
{
    const Table *table = &((Vocabulary *)self)->table;
    Py_buffer view;
    if (may_read((Vocabulary *)self) < 0 || get_items(from, &view, sizeof(uint32_t), false, "ids") < 0)
        return NULL;
    Vocabulary *chosen = vocabulary_make(Py_TYPE(self));
    const uint32_t *ids = view.buf;
    if (chosen && table_reserve(&chosen->table, items_in(&view, sizeof *ids)) != OK) {
        PyErr_NoMemory();
        Py_CLEAR(chosen);
    }
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

PyDoc_STRVAR(vocabulary_dump_doc, "dump()\n--\n\n(ends, text): the concatenated terms, and the end of each (uint64).");
static PyObject *vocabulary_dump(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const Table *table = &((Vocabulary *)self)->table;
    if (may_read((Vocabulary *)self) < 0)
        return NULL;
    PyObject *ends = PyBytes_FromStringAndSize((const char *)table->ends,
                                               (Py_ssize_t)(table->terms * sizeof *table->ends));
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
static PyType_Slot vocabulary_slots[] = {{Py_tp_doc, (void *)vocabulary_doc}, {Py_tp_new, vocabulary_new},
                                         {Py_tp_dealloc, vocabulary_dealloc}, {Py_tp_methods, vocabulary_methods},
                                         {Py_sq_length, vocabulary_length},   {0, NULL}};
PyType_Spec vocabulary_spec = {.name = "surebayes.kernels._text.Vocabulary",
                               .basicsize = sizeof(Vocabulary),
                               .flags = Py_TPFLAGS_DEFAULT,
                               .slots = vocabulary_slots};
