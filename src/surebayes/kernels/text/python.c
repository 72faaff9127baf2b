/* The interface to Python: arrays returned through the buffer protocol, input buffers, and exceptions. */
#include "module.h"
#include "vocabulary.h"

/* Memory that Python takes over through the buffer protocol, without a copy. */
typedef struct {
    PyObject_HEAD void *data;
    size_t size;
} Block;

/* Takes over `data`, also on failure. */
PyObject *block_of(State *state, void *data, size_t size)
{
    Block *block = PyObject_New(Block, state->block_type);
    if (!block) {
        free(data);
        return NULL;
    }
    block->data = data;
    block->size = size;
    return (PyObject *)block;
}

static void block_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((Block *)self)->data);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int block_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    static char nothing;
    Block *block = (Block *)self;
    return PyBuffer_FillInfo(view, self, block->data ? block->data : &nothing, (Py_ssize_t)block->size, 0, flags);
}

static Py_ssize_t block_length(PyObject *self)
{
    return (Py_ssize_t)((Block *)self)->size;
}

PyDoc_STRVAR(block_doc, "Memory that the kernel filled; read it through the buffer protocol.");

static PyType_Slot block_slots[] = {{Py_tp_doc, (void *)block_doc},
                                    {Py_tp_dealloc, block_dealloc},
                                    {Py_bf_getbuffer, block_getbuffer},
                                    {Py_sq_length, block_length},
                                    {0, NULL}};
PyType_Spec block_spec = {.name = "surebayes.kernels._text.Block",
                          .basicsize = sizeof(Block),
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = block_slots};

/* A copy of an array as a block. The workspace keeps its arrays for the next call: page faults of new ones would take
 * longer than the copy. */
PyObject *block_copy(State *state, const void *array, size_t bytes)
{
    void *copy = bytes ? malloc(bytes) : NULL;
    if (bytes && !copy)
        return PyErr_NoMemory();
    if (bytes)
        memcpy(copy, array, bytes);
    return block_of(state, copy, bytes);
}

/* A contiguous buffer of items; -1 with an exception that names it. */
int get_items(PyObject *from, Py_buffer *view, size_t item, bool writable, const char *name)
{
    if (PyObject_GetBuffer(from, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return -1;
    if (view->len && ((size_t)view->len % item || (uintptr_t)view->buf % item)) {
        PyErr_Format(PyExc_ValueError, "%s: expected an aligned buffer of %zu-byte items, got %zd bytes", name, item,
                     view->len);
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

bool is_list(PyObject *documents)
{
    if (PyList_Check(documents))
        return true;
    PyErr_Format(PyExc_TypeError, "documents must be a list, got %R", (PyObject *)Py_TYPE(documents));
    return false;
}

int raise_status(Status status)
{
    if (status == TOO_MANY_TERMS)
        PyErr_Format(PyExc_OverflowError, "the vocabulary is full: it holds %d terms; use HashingVectorizer instead",
                     MAX_TERMS);
    else
        PyErr_NoMemory();
    return -1;
}

void plain_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}
