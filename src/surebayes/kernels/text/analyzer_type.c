/* The Python type Analyzer. */
#include "module.h"
#include "workspace.h"

PyDoc_STRVAR(analyzer_doc,
             "Analyzer(kind='word', low=1, high=1, lowercase=True, shortest=2, max_bytes=3000, stop_words=())\n--\n\n"
             "Tokenizer of documents.\n\n"
             "kind: 'word' (runs of \\w of at least `shortest` characters), 'char', 'char_wb' or 'bytes' (of the first "
             "`max_bytes`\n"
             "bytes, never lower-cased); low, high: the n-gram sizes; stop_words: a sequence of str, for 'word' only.");

static PyObject *analyzer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"kind", "low", "high", "lowercase", "shortest", "max_bytes", "stop_words", NULL};
    const char *kind = "word";
    Py_ssize_t low = 1, high = 1, shortest = 2, max_bytes = 3000;
    int lowercase = 1;
    PyObject *stop_words = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|snnpnnO:Analyzer", names, &kind, &low, &high, &lowercase,
                                     &shortest, &max_bytes, &stop_words))
        return NULL;
    static const char *const kinds[] = {"word", "char", "char_wb", "bytes"};
    int which = 0;
    while (which < 4 && strcmp(kind, kinds[which]))
        which++;
    if (which == 4)
        return PyErr_Format(PyExc_ValueError, "kind must be 'word', 'char', 'char_wb' or 'bytes', got '%s'", kind);
    if (low < 1 || high < low)
        return PyErr_Format(PyExc_ValueError, "n-gram sizes must be 1 <= low <= high, got %zd and %zd", low, high);
    if (shortest < 1 || shortest > 2)
        return PyErr_Format(PyExc_ValueError, "shortest must be 1 or 2, got %zd", shortest);
    if (max_bytes < 0)
        return PyErr_Format(PyExc_ValueError, "max_bytes must not be negative, got %zd", max_bytes);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Analyzer *self = (Analyzer *)allocate(type, 0);
    if (!self)
        return NULL;
    self->kind = (Kind)which;
    self->low = (size_t)low;
    self->high = (size_t)high;
    self->lowercase = lowercase && self->kind != BYTES;
    self->shortest = (size_t)shortest;
    self->max_bytes = (size_t)max_bytes;
    Status status = table_init(&self->stop_words);
    if ((status != OK && raise_status(status) < 0) || (stop_words && add_terms(&self->stop_words, stop_words) < 0)) {
        Py_DECREF(self);
        return NULL;
    }
    self->has_stop_words = self->stop_words.terms > 0;
    return (PyObject *)self;
}

static void analyzer_dealloc(PyObject *self)
{
    table_free(&((Analyzer *)self)->stop_words);
    plain_dealloc(self);
}

static PyType_Slot analyzer_slots[] = {
    {Py_tp_doc, (void *)analyzer_doc}, {Py_tp_new, analyzer_new}, {Py_tp_dealloc, analyzer_dealloc}, {0, NULL}};
PyType_Spec analyzer_spec = {.name = "surebayes.kernels._text.Analyzer",
                             .basicsize = sizeof(Analyzer),
                             .flags = Py_TPFLAGS_DEFAULT,
                             .slots = analyzer_slots};
