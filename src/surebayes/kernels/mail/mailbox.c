/* Mails in one file. */
#include "module.h"

PyDoc_STRVAR(from_lines_doc,
             "from_lines(block, place, /)\n--\n\n"
             "Where from `place` on a line starts with \"From \", the first 1,000: the places of the line "
             "ends before; -1 - place if quoted (\">From \").");

static PyObject *from_lines(PyObject *module, PyObject *args)
{
    PyObject *block;
    char *data;
    Py_ssize_t size, place;
    (void)module;
    if (!PyArg_ParseTuple(args, "Sn:from_lines", &block, &place) || PyBytes_AsStringAndSize(block, &data, &size) < 0)
        return NULL;
    if (place < 0)
        place = 0;
    PyObject *found = PyList_New(0);
    const char *start = data + (place < size ? place : size), *end = data + size;
    /* an F is rare, and memchr is many times quicker than a search that looks at every line */
    for (const char *p = start;
         found && PyList_Size(found) < MOST_FROM_LINES && end - p >= 5 && (p = memchr(p, 'F', (size_t)(end - p - 4)));
         p++) {
        const char *line = p;
        if (memcmp(p, "From ", 5))
            continue;
        while (line > start && line[-1] == '>')
            line--;
        if (line == start || line[-1] != '\n')
            continue;
        Py_ssize_t at = line - 1 - data;
        PyObject *value = PyLong_FromSsize_t(line < p ? -1 - at : at);
        if (!value || PyList_Append(found, value) < 0)
            Py_CLEAR(found);
        Py_XDECREF(value);
    }
    return found;
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether a time of day comes before an end, and a year after it: four digits that no word goes on with. */
static int has_time_and_year(const char *p, const char *end)
{
    const char *start = p;
    for (; (p = memchr(p, ':', (size_t)(end - p))); p++)
        if (p > start && end - p > 2 && is_digit(p[-1]) && is_digit(p[1]) && is_digit(p[2]))
            break;
    if (!p)
        return 0;
    for (p += 3; end - p >= 4; p++)
        if (is_digit(p[0]) && is_digit(p[1]) && is_digit(p[2]) && is_digit(p[3]) && !is_digit(p[-1]) && p[-1] != '_' &&
            !((p[-1] | 32) >= 'a' && (p[-1] | 32) <= 'z'))
            return 1;
    return 0;
}

PyDoc_STRVAR(is_from_line_doc, "is_from_line(block, place, /)\n--\n\n"
                               "Whether a line that starts a message of a mailbox starts here: \"From \", and in its "
                               "first 1,000 bytes a time of day and a year.");

static PyObject *is_from_line(PyObject *module, PyObject *args)
{
    PyObject *block;
    char *data;
    Py_ssize_t size, place;
    (void)module;
    if (!PyArg_ParseTuple(args, "Sn:is_from_line", &block, &place) || PyBytes_AsStringAndSize(block, &data, &size) < 0)
        return NULL;
    if (place < 0 || size - place < 5 || memcmp(data + place, "From ", 5))
        Py_RETURN_FALSE;
    Py_ssize_t most = size - place < LONGEST_FROM_LINE ? size - place : LONGEST_FROM_LINE;
    const char *end = memchr(data + place, '\n', (size_t)most);
    return PyBool_FromLong(has_time_and_year(data + place + 5, end ? end : data + place + most));
}

PyDoc_STRVAR(unquote_from_doc, "unquote_from(content, /)\n--\n\n"
                               "Take one quote off every line that starts with quotes and \"From \".");

static PyObject *unquote_from(PyObject *module, PyObject *content)
{
    char *data, *out, *to;
    Py_ssize_t size;
    (void)module;
    if (PyBytes_AsStringAndSize(content, &data, &size) < 0)
        return NULL;
    if (!(to = out = PyMem_Malloc((size_t)size + 1)))
        return PyErr_NoMemory();
    for (const char *line = data, *end = data + size, *next; line < end; line = next) {
        const char *word = line;
        while (word < end && *word == '>')
            word++;
        next = memchr(word, '\n', (size_t)(end - word));
        next = next ? next + 1 : end;
        line += word > line && end - word >= 5 && !memcmp(word, "From ", 5);
        memcpy(to, line, (size_t)(next - line));
        to += next - line;
    }
    PyObject *result = PyBytes_FromStringAndSize(out, to - out);
    PyMem_Free(out);
    return result;
}

PyMethodDef mailbox_functions[] = {
    {"unquote_from", unquote_from, METH_O, unquote_from_doc},
    {"from_lines", from_lines, METH_VARARGS, from_lines_doc},
    {"is_from_line", is_from_line, METH_VARARGS, is_from_line_doc},
    {NULL, NULL, 0, NULL},
};
