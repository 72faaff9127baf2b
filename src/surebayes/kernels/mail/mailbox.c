/* Mails in one file. */
#include "module.h"

PyDoc_STRVAR(from_lines_doc, "from_lines(block, place, /)\n--\n\n"
                             "Where from `place` on a line starts with \"From \": the places of the line ends before; "
                             "-1 - place if quoted (\">From \").");

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
    for (const char *p = start; found && end - p >= 5 && (p = memchr(p, 'F', (size_t)(end - p - 4))); p++) {
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

PyMethodDef mailbox_functions[] = {
    {"from_lines", from_lines, METH_VARARGS, from_lines_doc},
    {NULL, NULL, 0, NULL},
};
