/* Rows of the journal that hold messages: numbered, with the checksum of each and the running one. */
#include "pool.h"

enum { NUMBER = 24 }; /* room for a whole number in digits */

/* What is written of a head before its checksum is taken; grows as need be. */
typedef struct {
    char *at;
    size_t size, room;
} Text;

static int put(Text *text, const char *data, size_t size)
{
    if (text->size + size > text->room) {
        size_t room = 2 * (text->size + size);
        char *grown = realloc(text->at, room);
        if (!grown) {
            PyErr_NoMemory();
            return -1;
        }
        text->at = grown;
        text->room = room;
    }
    memcpy(text->at + text->size, data, size);
    text->size += size;
    return 0;
}

static int put_number(Text *text, uint64_t number)
{
    char digits[NUMBER], *p = digits + NUMBER;
    do
        *--p = (char)('0' + number % 10);
    while (number /= 10);
    return put(text, p, (size_t)(digits + NUMBER - p));
}

/* Bytes as Python writes them. */
static int put_bytes(Text *text, const uint8_t *data, size_t size)
{
    char quote = memchr(data, '\'', size) && !memchr(data, '"', size) ? '"' : '\'', start[] = {'b', quote};
    if (put(text, start, 2) < 0)
        return -1;
    for (const uint8_t *p = data; p < data + size; p++) {
        char shown[] = {'\\', 'x', "0123456789abcdef"[*p >> 4], "0123456789abcdef"[*p & 15]};
        size_t n = 4;
        if (*p == quote || *p == '\\' || *p == '\t' || *p == '\n' || *p == '\r') {
            shown[1] = *p == '\t' ? 't' : *p == '\n' ? 'n' : *p == '\r' ? 'r' : (char)*p;
            n = 2;
        } else if (*p >= ' ' && *p < 127) {
            shown[0] = (char)*p;
            n = 1;
        }
        if (put(text, shown, n) < 0)
            return -1;
    }
    return put(text, &quote, 1);
}

/* What rows have in common: their action and label, and what goes before the fingerprint and before the number of the
 * body in a head. */
typedef struct {
    PyObject *action, *label;
    const char *opening, *closing;
    Py_ssize_t n_opening, n_closing;
} Kind;

/* What all rows have in common. */
typedef struct {
    PyObject *time, *who, *reader;
    Kind *kinds;
    Py_ssize_t n_kinds;
} Common;

static int read_kinds(PyObject *list, Common *common)
{
    common->n_kinds = PyList_Size(list);
    if (!(common->kinds = calloc((size_t)common->n_kinds + 1, sizeof *common->kinds))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < common->n_kinds; i++) {
        Kind *kind = common->kinds + i;
        PyObject *from = PyList_GetItem(list, i);
        if (!PyTuple_Check(from)) {
            PyErr_SetString(PyExc_TypeError, "a kind must be a tuple");
            return -1;
        }
        if (!PyArg_ParseTuple(from, "UUy#y#", &kind->action, &kind->label, &kind->opening, &kind->n_opening,
                              &kind->closing, &kind->n_closing))
            return -1;
    }
    return 0;
}

/* The checksum of all but the body; -1 with an exception. */
static int64_t head_check(Text *text, const Common *common, const Kind *kind, uint64_t seq, PyObject *fingerprint,
                          uint32_t body_check, PyObject *message_id)
{
    Py_ssize_t n, n_id = 0;
    char *id = NULL;
    const char *digits = PyUnicode_Check(fingerprint) ? PyUnicode_AsUTF8AndSize(fingerprint, &n) : NULL;
    for (Py_ssize_t i = 0; digits && i < n; i++)
        if (!strchr("0123456789abcdef", digits[i]) || !digits[i])
            digits = NULL;
    if (!digits) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a fingerprint must be hexadecimal digits");
        return -1;
    }
    if (message_id != Py_None && PyBytes_AsStringAndSize(message_id, &id, &n_id) < 0)
        return -1;
    text->size = 0;
    if (put(text, "(", 1) < 0 || put_number(text, seq) < 0 || put(text, kind->opening, (size_t)kind->n_opening) < 0 ||
        put(text, "'", 1) < 0 || put(text, digits, (size_t)n) < 0 || put(text, "'", 1) < 0 ||
        put(text, kind->closing, (size_t)kind->n_closing) < 0 || put_number(text, body_check) < 0)
        return -1;
    if (common->reader != Py_None || id) {
        long reader = common->reader == Py_None ? 0 : PyLong_AsLong(common->reader);
        if (reader < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a reader's version must not be negative");
            return -1;
        }
        if (put(text, ", ", 2) < 0 ||
            (common->reader == Py_None ? put(text, "None", 4) : put_number(text, (uint64_t)reader)) < 0 ||
            put(text, ", ", 2) < 0 || (id ? put_bytes(text, (uint8_t *)id, (size_t)n_id) : put(text, "None", 4)) < 0)
            return -1;
    }
    return put(text, ")", 1) < 0 ? -1 : (int64_t)crc32_of((uint8_t *)text->at, text->size);
}

/* One row, in the order of the journal's table, and the running checksum with it; NULL with an exception. */
static PyObject *row_of(Text *text, const Common *common, const Kind *kind, uint64_t seq, uint32_t *chain,
                        PyObject *fingerprint, PyObject *body, PyObject *body_check, PyObject *message_id)
{
    unsigned long of_body = PyLong_AsUnsignedLong(body_check);
    if (of_body > UINT32_MAX) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a checksum has 32 bits");
        return NULL;
    }
    int64_t check = head_check(text, common, kind, seq, fingerprint, (uint32_t)of_body, message_id);
    if (check < 0)
        return NULL;
    uint32_t own = (uint32_t)check;
    *chain = crc32_on(*chain, (uint8_t *)&own, 4);
    /* sqlite3 binds a bytearray at once, and looks for an adapter of bytes first */
    PyObject *name = message_id == Py_None
                         ? Py_NewRef(Py_None)
                         : PyByteArray_FromStringAndSize(PyBytes_AsString(message_id), PyBytes_Size(message_id));
    return name ? Py_BuildValue("(KOOOiOOIOONIO)", (unsigned long long)seq, kind->action, fingerprint, kind->label, 0,
                                common->time, common->who, own, body_check, common->reader, name, *chain, body)
                : NULL;
}

/* Lists of what each row has, and what all have: attributes of the messages. */
typedef struct {
    PyObject *fingerprints, *bodies, *checks, *names;
    Common common;
} Messages;

static void messages_close(Messages *m)
{
    Py_XDECREF(m->fingerprints);
    Py_XDECREF(m->bodies);
    Py_XDECREF(m->checks);
    Py_XDECREF(m->names);
    Py_XDECREF(m->common.time);
    Py_XDECREF(m->common.who);
    Py_XDECREF(m->common.reader);
    free(m->common.kinds);
}

/* Take messages over; how many there are, or -1 with an exception. */
static Py_ssize_t messages_open(Messages *m, PyObject *from)
{
    const struct {
        const char *name;
        PyObject **into;
    } lists[] = {{"fingerprints", &m->fingerprints},
                 {"bodies", &m->bodies},
                 {"checks", &m->checks},
                 {"names", &m->names}},
      alike[] = {{"time", &m->common.time}, {"who", &m->common.who}, {"reader", &m->common.reader}};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (!(*alike[i].into = PyObject_GetAttrString(from, alike[i].name)))
            return -1;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (!(*lists[i].into = PyObject_GetAttrString(from, lists[i].name)))
            return -1;
        if (!PyList_Check(*lists[i].into)) {
            PyErr_Format(PyExc_TypeError, "%s must be a list", lists[i].name);
            return -1;
        }
        if (PyList_Size(*lists[i].into) != PyList_Size(m->fingerprints)) {
            PyErr_SetString(PyExc_ValueError, "there must be as many fingerprints, bodies and Message-IDs as rows");
            return -1;
        }
    }
    return PyList_Size(m->fingerprints);
}

const char number_messages_doc[] =
    "number_messages(messages, kinds, which, seq, chain)\n--\n\n"
    "Rows of the journal that hold messages, from the number `seq` on, and the running checksum with them, which is "
    "`chain` before.\n"
    "`messages` has lists fingerprints, bodies, checks and names, and the time, who and reader of all of them; `kinds` "
    "(action, label,\n"
    "opening, closing) of what is alike, `which` the kind of each as uint16.";
PyObject *pool_number_messages(PyObject *module, PyObject *args)
{
    PyObject *from, *kinds, *result = NULL;
    const uint8_t *which;
    Py_ssize_t n, n_which;
    unsigned long long seq;
    unsigned int first;
    Messages m = {0};
    Text text = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!y#KI:number_messages", &from, &PyList_Type, &kinds, &which, &n_which, &seq, &first))
        return NULL;
    n = messages_open(&m, from);
    if (n >= 0 && n_which != 2 * n)
        PyErr_SetString(PyExc_ValueError, "there must be as many kinds as rows");
    else if (n >= 0 && read_kinds(kinds, &m.common) == 0)
        result = PyList_New(n);
    uint32_t chain = first;
    for (Py_ssize_t i = 0; result && i < n; i++) {
        PyObject *row = NULL;
        Py_ssize_t kind = which[2 * i] | which[2 * i + 1] << 8;
        if (kind >= m.common.n_kinds)
            PyErr_SetString(PyExc_ValueError, "there is no such kind of rows");
        else
            row = row_of(&text, &m.common, m.common.kinds + kind, seq + (uint64_t)i, &chain,
                         PyList_GetItem(m.fingerprints, i), PyList_GetItem(m.bodies, i), PyList_GetItem(m.checks, i),
                         PyList_GetItem(m.names, i));
        if (!row || PyList_SetItem(result, i, row) < 0)
            Py_CLEAR(result);
    }
    messages_close(&m);
    free(text.at);
    return result ? Py_BuildValue("(NI)", result, chain) : NULL;
}
