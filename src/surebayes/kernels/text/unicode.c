/* Character classes and lower case: each character is looked up in Python when it first occurs. */
#include "python.h"

/* str.method() as 0 or 1; -1 with an exception. */
int ask(PyObject *text, PyObject *method)
{
    PyObject *answer = PyObject_CallMethodObjArgs(text, method, NULL);
    if (!answer)
        return -1;
    int yes = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return yes;
}

/* The page of a character, empty at first. */
static Page *page_of(State *state, uint32_t c)
{
    Page **page = &state->pages[c / 256];
    if (!*page && !(*page = calloc(1, sizeof **page)))
        PyErr_NoMemory();
    return *page;
}

const Page *learn_character(State *state, uint32_t c)
{
    Page *page = page_of(state, c);
    if (!page || page->flags[c & 255] & KNOWN)
        return page;
    PyObject *one = PyUnicode_FromOrdinal((int)c),
             *small = one ? PyObject_CallMethodObjArgs(one, state->lower, NULL) : NULL;
    int is_word = !small ? -1 : c == '_' ? 1 : ask(one, state->isalnum);
    int is_space = is_word ? 0 : ask(one, state->isspace);
    Py_ssize_t n = small ? PyUnicode_GetLength(small) : -1;
    if (n >= 0 && is_word >= 0 && is_space >= 0) {
        int flags = KNOWN | (is_word ? WORD : 0) | (is_space ? SPACE : 0);
        uint8_t bytes[4];
        size_t length = utf8_encode(c, page->lower[c & 255]);
        /* U+03A3 becomes one of two letters, depending on whether the word ends */
        if (n == 1 && c != 0x3A3 && utf8_encode(PyUnicode_ReadChar(small, 0), bytes) == length)
            memcpy(page->lower[c & 255], bytes, length);
        else
            flags |= PYTHON_LOWER;
        STORE_FLAGS(&page->flags[c & 255], (uint8_t)flags);
    } else
        page = NULL;
    Py_XDECREF(one);
    Py_XDECREF(small);
    return page;
}
