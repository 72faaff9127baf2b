/* The interface to Python: the module's state, arrays returned to Python, and input buffers. */
#ifndef SUREBAYES_TEXT_PYTHON_H
#define SUREBAYES_TEXT_PYTHON_H

#include "unicode.h"

typedef struct Workspace Workspace;

struct State {
    PyTypeObject *block_type, *analyzer_type, *vocabulary_type, *scorer_type;
    PyObject *isascii, *isalnum, *isspace, *lower;
    Page *pages[PAGES];
    Workspace *idle; /* workspaces not in use, kept for the next call */
};

static inline State *state_of_type(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

static inline size_t items_in(const Py_buffer *view, size_t item)
{
    return (size_t)view->len / item;
}

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Return memory to Python through the buffer protocol, without a copy; takes over `data`, also on failure. */
PyObject *block_of(State *state, void *data, size_t size);

/* A copy of an array as a block. The workspace keeps its arrays for the next call: page faults of new ones would take
 * longer than the copy. */
PyObject *block_copy(State *state, const void *array, size_t bytes);

/* A contiguous buffer of items; -1 with an exception that names it. */
int get_items(PyObject *from, Py_buffer *view, size_t item, bool writable, const char *name);
bool is_list(PyObject *documents);

/* Raise the exception for a status; return -1. */
int raise_status(Status status);
void plain_dealloc(PyObject *self);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
