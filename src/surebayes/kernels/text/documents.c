/* Iteration over the documents of a Python list: a batch is collected under the GIL, and counted without it. */
#include "documents.h"

#include "../gil.h"

enum { GATHER = 64, GATHER_BYTES = 1 << 20 };

static void document_close(Document *document)
{
    Py_CLEAR(document->owner);
}

/* The UTF-8 of a str. ASCII text is used in place; other text is encoded into temporary bytes, because
 * PyUnicode_AsUTF8AndSize would keep a copy as long as the str exists. */
static int document_encode(State *state, PyObject *text, bool surrogates, Document *document)
{
    int ascii = ask(text, state->isascii);
    if (ascii < 0)
        return -1;
    Py_ssize_t size;
    if (ascii) {
        document->text = (const uint8_t *)PyUnicode_AsUTF8AndSize(text, &size);
        document->owner = Py_NewRef(text);
    } else {
        document->owner = PyUnicode_AsUTF8String(text);
        if (!document->owner && surrogates && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            PyErr_Clear(); /* lone surrogates */
            document->owner = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
        }
        if (!document->owner)
            return -1;
        char *bytes;
        if (PyBytes_AsStringAndSize(document->owner, &bytes, &size) < 0)
            return -1;
        document->text = (const uint8_t *)bytes;
    }
    if (!document->text)
        return -1;
    document->size = (size_t)size;
    return 0;
}

static int document_open(Workspace *ws, PyObject *given, Document *document)
{
    const Analyzer *analyzer = ws->analyzer;
    *document = (Document){.lower = analyzer->lowercase};
    if (PyUnicode_Check(given)) {
        /* characters that can't be encoded can't be hashed, as in scikit-learn; they aren't word characters */
        bool surrogates = ws->table || analyzer->kind == WORDS || analyzer->kind == BYTES;
        if (document_encode(ws->state, given, surrogates, document) < 0)
            return -1;
    } else if (analyzer->kind == BYTES && PyBytes_Check(given)) {
        char *bytes;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(given, &bytes, &size) < 0)
            return -1;
        *document = (Document){Py_NewRef(given), (const uint8_t *)bytes, (size_t)size, false};
    } else {
        const char *wanted = analyzer->kind == BYTES ? "str or bytes" : "str";
        PyErr_Format(PyExc_TypeError, "a document must be %s, got %R", wanted, (PyObject *)Py_TYPE(given));
        return -1;
    }
    if (analyzer->kind == BYTES && document->size > analyzer->max_bytes)
        document->size = analyzer->max_bytes;
    if (document->size > MAX_DOCUMENT) {
        PyErr_Format(PyExc_OverflowError, "a document of %zu bytes is too long: split it into pieces of at most %d",
                     document->size, MAX_DOCUMENT);
        return -1;
    }
    return 0;
}

/* Handle a worker's status under the GIL; -1 with an exception on failure. */
static int help_out(Workspace *ws, Status status, PyObject *given, Document *document)
{
    if (status == NEED_CHARACTERS) {
        int failed = 0;
        for (; ws->unknown_used; ws->unknown_used--) { /* all bits of `recorded` are cleared, even after a failure */
            uint32_t c = ws->unknown[ws->unknown_used - 1];
            ws->recorded[c / 8] = 0;
            if (!failed)
                failed = !(ws->pages[c / 256] = learn_character(ws->state, c));
        }
        return failed ? -1 : 0;
    }
    if (status != NEED_LOWER)
        return raise_status(status);
    PyObject *lowered = PyObject_CallMethodObjArgs(given, ws->state->lower, NULL);
    if (!lowered)
        return -1;
    document_close(document);
    bool surrogates = ws->table || ws->analyzer->kind == WORDS;
    int result = document_encode(ws->state, lowered, surrogates, document);
    Py_DECREF(lowered);
    document->lower = false;
    if (result == 0 && document->size > MAX_DOCUMENT) {
        PyErr_SetString(PyExc_OverflowError, "a document is too long after str.lower(): split it into pieces");
        return -1;
    }
    return result;
}

/* Count every document of a list; calls `done` after each, without the GIL. */
int each_document(Workspace *ws, PyObject *documents, RowDone done, void *context)
{
    Document gathered[GATHER];
    PyObject *given[GATHER];
    Py_ssize_t n = PyList_Size(documents);
    int failed = 0;
    for (Py_ssize_t at = 0; at < n && !failed;) {
        int have = 0;
        size_t bytes = 0;
        for (; have < GATHER && at + have < n && bytes < GATHER_BYTES && !failed;) {
            PyObject *item = PyList_GetItem(documents, at + have);
            if (!item) { /* another thread shortened the list */
                failed = 1;
                break;
            }
            given[have] = Py_NewRef(item);
            failed = document_open(ws, item, &gathered[have]) < 0;
            bytes += failed ? 0 : gathered[have].size;
            have++;
        }
        for (int i = 0; i < have && !failed;) {
            Status status = OK;
            PyThreadState *thread = release_gil((size_t)n, bytes);
            for (; i < have; i++) {
                status = count_document(ws, &gathered[i]);
                if (status == OK)
                    status = done(ws, (size_t)(at + i), context);
                if (status != OK)
                    break;
            }
            restore_gil(thread);
            if (status != OK)
                failed = help_out(ws, status, given[i], &gathered[i]) < 0;
        }
        for (int i = 0; i < have; i++) {
            document_close(&gathered[i]);
            Py_DECREF(given[i]);
        }
        at += have;
    }
    return failed ? -1 : 0;
}
