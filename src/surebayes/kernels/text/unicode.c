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

/* Fill in one character's flags and lower case from Python. */
static int learn_character(State *state, Page *page, PyObject *all, int i, uint32_t c, bool word, bool caseless)
{
    PyObject *one = PyUnicode_Substring(all, i, i + 1);
    if (!one)
        return -1;
    int is_word = word ? 1 : c == '_' ? 1 : ask(one, state->isalnum);
    int is_space = is_word ? 0 : ask(one, state->isspace);
    page->flags[i] = (uint8_t)((is_word > 0 ? WORD : 0) | (is_space > 0 ? SPACE : 0));
    size_t length = utf8_encode(c, page->lower[i]);
    int failed = is_word < 0 || is_space < 0;
    if (!failed && !caseless) {
        PyObject *small = PyObject_CallMethodObjArgs(one, state->lower, NULL);
        Py_ssize_t n = small ? PyUnicode_GetLength(small) : -1;
        uint8_t bytes[4];
        /* U+03A3 becomes one of two letters, as the word goes on after it or not */
        if (n == 1 && c != 0x3A3 && utf8_encode(PyUnicode_ReadChar(small, 0), bytes) == length)
            memcpy(page->lower[i], bytes, length);
        else
            page->flags[i] |= PYTHON_LOWER;
        Py_XDECREF(small);
        failed = n < 0;
    }
    Py_DECREF(one);
    return failed ? -1 : 0;
}

/* Ask Python about a page of 256 code points. With the GIL. */
Page *learn_page(State *state, uint32_t number)
{
    if (state->pages[number])
        return state->pages[number];
    uint32_t points[256];
    for (uint32_t i = 0; i < 256; i++)
        points[i] = number * 256 + i;
    int order = BIG_ENDIAN_HOST ? 1 : -1;
    PyObject *all = PyUnicode_DecodeUTF32((const char *)points, sizeof points, "surrogatepass", &order);
    if (!all)
        return NULL;
    PyObject *small = PyObject_CallMethodObjArgs(all, state->lower, NULL);
    int word = ask(all, state->isalnum); /* true for whole pages of Chinese and Korean: no need to ask 256 times */
    int caseless = small ? PyUnicode_Compare(all, small) == 0 && !PyErr_Occurred() : 0;
    Page *page = calloc(1, sizeof *page);
    if (!page)
        PyErr_NoMemory();
    int failed = !small || word < 0 || !page;
    for (int i = 0; !failed && i < 256; i++)
        failed = learn_character(state, page, all, i, points[i], word, caseless) < 0;
    Py_XDECREF(small);
    Py_DECREF(all);
    if (failed) {
        free(page);
        return NULL;
    }
    state->pages[number] = page;
    return page;
}
