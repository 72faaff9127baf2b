/* Splitting of mailboxes into messages. */
#include "module.h"

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether there is a time of day before an end, and after it a year: four digits that aren't part of a word. */
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

/* Whether a "From " line starts here. */
static bool starts_message(const char *data, Py_ssize_t size, Py_ssize_t place)
{
    if (size - place < 5 || memcmp(data + place, "From ", 5))
        return false;
    Py_ssize_t most = size - place < LONGEST_FROM_LINE ? size - place : LONGEST_FROM_LINE;
    const char *end = memchr(data + place, '\n', (size_t)most);
    return has_time_and_year(data + place + 5, end ? end : data + place + most);
}

PyDoc_STRVAR(is_from_line_doc, "is_from_line(block, place, /)\n--\n\n"
                               "Whether the line starts a message of a mailbox: \"From \", and in its "
                               "first 1,000 bytes a time of day and a year.");

static PyObject *is_from_line(PyObject *module, PyObject *args)
{
    PyObject *block;
    char *data;
    Py_ssize_t size, place;
    (void)module;
    if (!PyArg_ParseTuple(args, "Sn:is_from_line", &block, &place) || PyBytes_AsStringAndSize(block, &data, &size) < 0)
        return NULL;
    return PyBool_FromLong(place >= 0 && starts_message(data, size, place));
}

PyDoc_STRVAR(unquote_from_doc, "unquote_from(content, /)\n--\n\n"
                               "Take one quote off every line that starts with quotes and \"From \".");

static PyObject *unquoted(const char *data, Py_ssize_t size)
{
    char *out, *to;
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

static PyObject *unquote_from(PyObject *module, PyObject *content)
{
    char *data;
    Py_ssize_t size;
    (void)module;
    return PyBytes_AsStringAndSize(content, &data, &size) < 0 ? NULL : unquoted(data, size);
}

/* The state of splitting: the block, the start of the current message, and whether it has quoted lines. */
typedef struct {
    const char *data;
    Py_ssize_t begin, kept;
    bool quoted;
    PyObject *found;
} Mailbox;

/* Add the current message, which ends here, without its "From " line and the blank line before the next one. */
static bool add_message(Mailbox *box, Py_ssize_t end)
{
    const char *from = memchr(box->data + box->begin, '\n', (size_t)(end - box->begin)), *to = box->data + end;
    if (!from)
        from = to;
    else if (++from <= to - 2 && to[-1] == '\n' && to[-2] == '\n')
        to--;
    else if (from <= to - 3 && to[-1] == '\n' && to[-2] == '\r' && to[-3] == '\n')
        to -= 2;
    Py_ssize_t size = to - from < box->kept ? to - from : box->kept;
    PyObject *content = box->quoted ? unquoted(from, size) : PyBytes_FromStringAndSize(from, size);
    PyObject *pair = content ? Py_BuildValue("(Nn)", content, end - box->begin) : NULL;
    bool added = pair && PyList_Append(box->found, pair) == 0;
    Py_XDECREF(pair);
    box->begin = end;
    box->quoted = false;
    return added;
}

/* Add the messages that are followed by another one; return where to continue, -1 for an error. */
static Py_ssize_t add_messages(Mailbox *box, Py_ssize_t size, Py_ssize_t place)
{
    const char *data = box->data, *start = data + place, *end = data + size;
    /* an F is rare, and memchr is many times faster than a loop over lines */
    for (const char *p = start; end - p >= 5 && (p = memchr(p, 'F', (size_t)(end - p - 4))); p++) {
        const char *line = p;
        if (memcmp(p, "From ", 5))
            continue;
        while (line > start && line[-1] == '>')
            line--;
        if (line == start || line[-1] != '\n')
            continue;
        place = line - data;
        if (line < p) {
            box->quoted = true;
            continue;
        }
        Py_ssize_t most = size - place < LONGEST_FROM_LINE - 1 ? size - place : LONGEST_FROM_LINE - 1;
        if (most < LONGEST_FROM_LINE - 1 && !memchr(line, '\n', (size_t)most))
            return place - 1; /* the line continues in the next block */
        if (starts_message(data, size, place) && !add_message(box, place))
            return -1;
    }
    return place < size - LONGEST_FROM_LINE ? size - LONGEST_FROM_LINE : place;
}

/* Whether there is more than white space. */
static bool has_content(const char *data, Py_ssize_t size)
{
    for (Py_ssize_t i = 0; i < size; i++)
        if (data[i] != ' ' && (data[i] < '\t' || data[i] > '\r'))
            return true;
    return false;
}

PyDoc_STRVAR(mailbox_messages_doc,
             "mailbox_messages(block, begin, place, quoted, kept, last, /)\n--\n\n"
             "Split a block of a mailbox in which a message begins at `begin` and further ones from `place` on; "
             "`quoted` tells whether the first one has quoted lines. If `last`, the rest is the last message. "
             "Return a list of (content, bytes in the mailbox), with contents of up to `kept` bytes, and begin, "
             "place and quoted for the next block.");

static PyObject *mailbox_messages(PyObject *module, PyObject *args)
{
    Py_buffer block;
    Py_ssize_t place;
    int quoted, last;
    Mailbox box;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*nnpnp:mailbox_messages", &block, &box.begin, &place, &quoted, &box.kept, &last))
        return NULL;
    const char *data = block.buf;
    Py_ssize_t size = block.len;
    if (box.begin < 0 || place < box.begin || place > size || box.kept < 0) {
        PyErr_SetString(PyExc_ValueError, "mailbox_messages: places must be in the block, and kept not negative");
        PyBuffer_Release(&block);
        return NULL;
    }
    box.data = data;
    box.quoted = quoted;
    if (!(box.found = PyList_New(0))) {
        PyBuffer_Release(&block);
        return NULL;
    }
    if (!last)
        place = add_messages(&box, size, place);
    else if (has_content(data + box.begin, size - box.begin)) {
        box.quoted = true;
        place = add_message(&box, size) ? size : -1;
    }
    PyBuffer_Release(&block);
    if (place < 0) {
        Py_DECREF(box.found);
        return NULL;
    }
    return Py_BuildValue("(NnnN)", box.found, box.begin, place, PyBool_FromLong(box.quoted));
}

PyMethodDef mailbox_functions[] = {
    {"unquote_from", unquote_from, METH_O, unquote_from_doc},
    {"mailbox_messages", mailbox_messages, METH_VARARGS, mailbox_messages_doc},
    {"is_from_line", is_from_line, METH_VARARGS, is_from_line_doc},
    {NULL, NULL, 0, NULL},
};
