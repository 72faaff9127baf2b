/* Header blocks: finding fields, and removing fields. */
#include "header.h"
#include "module.h"

static const struct {
    const char *name;
    Py_ssize_t size;
} mail_fields[MAIL_FIELDS] = {
    {"content-type", 12}, {"content-transfer-encoding", 25}, {"content-disposition", 19}, {"subject", 7},
    {"message-id", 10},
};

static int mail_field_number(const unsigned char *name, Py_ssize_t size)
{
    for (int k = 0; k < MAIL_FIELDS; k++) {
        if (mail_fields[k].size != size)
            continue;
        Py_ssize_t i = 0;
        while (i < size && to_lower(name[i]) == (unsigned char)mail_fields[k].name[i])
            i++;
        if (i == size)
            return k;
    }
    return -1;
}

void scan_head(const unsigned char *line, const unsigned char *stop, MailHead *head)
{
    const Span none = {NULL, 0};
    Span open = none; /* the value of the field that continuation lines belong to */
    int number = -1;
    head->count = head->longest = 0;
    for (int k = 0; k < MAIL_FIELDS; k++)
        head->value[k] = none;
    for (;;) {
        const unsigned char *next = line < stop ? memchr(line, '\n', (size_t)(stop - line)) : NULL;
        const unsigned char *line_end = next ? next : stop;
        int blank = line == line_end || (*line == '\r' && line_end - line == 1);
        int more = !blank && (*line == ' ' || *line == '\t');
        if (more && open.at)
            open.size = line_end - open.at;
        if (!more && open.at) {
            if (open.size > head->longest)
                head->longest = open.size;
            if (number >= 0 && !head->value[number].at)
                head->value[number] = open;
            open = none;
        }
        head->end = line;
        head->body = blank && next ? next + 1 : line;
        if (blank)
            break;
        if (!more) {
            const unsigned char *p = line;
            while (p < line_end && *p > 32 && *p < 127 && *p != ':')
                p++;
            Py_ssize_t name = p - line;
            while (p < line_end && (*p == ' ' || *p == '\t'))
                p++;
            if (name && p < line_end && *p == ':') {
                open = (Span){p + 1, line_end - p - 1};
                number = mail_field_number(line, name);
                head->count++;
            } else if (!(line_end - line > 4 && memcmp(line, "From ", 5) == 0) &&
                       !(line_end - line > 5 && memcmp(line, ">From ", 6) == 0))
                break;
        }
        line = next ? next + 1 : stop;
    }
}

PyDoc_STRVAR(mail_head_doc,
             "mail_head(raw, start, end, /)\n--\n\n"
             "Return the end of the header block at `start`, the start of the body, the number of fields, the "
             "length of the longest one, and the values of Content-Type, Content-Transfer-Encoding, Content- "
             "Disposition, Subject and Message-ID.");

static PyObject *mail_head(PyObject *module, PyObject *args)
{
    PyObject *raw;
    Py_ssize_t start, end, size;
    char *data;
    MailHead head;
    (void)module;
    if (!PyArg_ParseTuple(args, "Snn:mail_head", &raw, &start, &end))
        return NULL;
    if (PyBytes_AsStringAndSize(raw, &data, &size) < 0)
        return NULL;
    if (start < 0 || end > size || start > end) {
        PyErr_SetString(PyExc_ValueError, "mail_head needs 0 <= start <= end <= len(raw)");
        return NULL;
    }
    const unsigned char *base = (const unsigned char *)data;
    scan_head(base + start, base + end, &head);
    const Span *value = head.value;
    return Py_BuildValue("nnnny#y#y#y#y#", (Py_ssize_t)(head.end - base), (Py_ssize_t)(head.body - base), head.count,
                         head.longest, value[0].at ? (const char *)value[0].at : "", value[0].size,
                         value[1].at ? (const char *)value[1].at : "", value[1].size,
                         value[2].at ? (const char *)value[2].at : "", value[2].size,
                         value[3].at ? (const char *)value[3].at : "", value[3].size,
                         value[4].at ? (const char *)value[4].at : "", value[4].size);
}

bool has_old_line_ends(const unsigned char *raw, Py_ssize_t size)
{
    return size && !memchr(raw, '\n', (size_t)(size < 65536 ? size : 65536)) && memchr(raw, '\r', (size_t)size);
}

/* The empty line after the header; the end of the message if there is none. */
static const unsigned char *find_header_end(const unsigned char *raw, const unsigned char *end)
{
    const unsigned char mark = has_old_line_ends(raw, end - raw) ? '\r' : '\n';
    for (const unsigned char *p = raw; p < end; p++) {
        if (*p == mark || (*p == '\r' && end - p > 1 && p[1] == '\n'))
            return p;
        p = memchr(p, mark, (size_t)(end - p));
        if (!p)
            break;
    }
    return end;
}

typedef struct {
    Span *name; /* in lower case */
    Py_ssize_t n;
    bool first[256]; /* whether a name starts with a byte, or is empty */
} FieldNames;

/* Read names from a tuple of bytes; false after an error. */
static bool read_names(FieldNames *names, PyObject *from)
{
    names->n = PyTuple_Size(from);
    memset(names->first, 0, sizeof names->first);
    if (!(names->name = PyMem_Malloc(((size_t)names->n + 1) * sizeof *names->name))) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t k = 0; k < names->n; k++) {
        char *name;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(from, k), &name, &names->name[k].size) < 0)
            return false;
        names->name[k].at = (const unsigned char *)name;
        if (names->name[k].size)
            names->first[(unsigned char)*name] = true;
        else
            memset(names->first, 1, sizeof names->first);
    }
    return true;
}

/* Whether a line starts with one of the names. */
static bool starts_with_name(const unsigned char *line, const unsigned char *end, const FieldNames *names)
{
    Py_ssize_t room = end - line < 64 ? end - line : 64;
    if (room && !names->first[to_lower(*line)])
        return false;
    for (Py_ssize_t k = 0; k < names->n; k++) {
        Span name = names->name[k];
        Py_ssize_t i = 0;
        while (i < name.size && i < room && to_lower(line[i]) == name.at[i])
            i++;
        if (i == name.size)
            return true;
    }
    return false;
}

PyDoc_STRVAR(without_fields_doc,
             "without_fields(raw, names, /)\n--\n\n"
             "Return the message without the header fields whose names start with one of `names` (bytes in "
             "lower case), and their continuation lines.");

static PyObject *without_fields(PyObject *module, PyObject *args)
{
    PyObject *raw, *given;
    char *data;
    Py_ssize_t size;
    FieldNames names;
    (void)module;
    if (!PyArg_ParseTuple(args, "SO!:without_fields", &raw, &PyTuple_Type, &given))
        return NULL;
    PyObject *result = NULL;
    unsigned char *out = NULL;
    if (!read_names(&names, given))
        goto done;
    if (PyBytes_AsStringAndSize(raw, &data, &size) < 0)
        goto done;

    const unsigned char *start = (const unsigned char *)data, *end = start + size,
                        *head_end = find_header_end(start, end);
    const unsigned char *kept = start; /* everything before is in `out`, or dropped */
    const unsigned char *feed = NULL;  /* the next \n, if searched */
    Py_ssize_t used = 0;
    bool dropping = false, bare = false; /* bare: the last line end is a lone \r, unknown to some readers */
    for (const unsigned char *line = start, *stop, *next; line < head_end; line = next) {
        if (!feed || feed < line) {
            feed = memchr(line, '\n', (size_t)(head_end - line));
            feed = feed ? feed : head_end;
        }
        stop = memchr(line, '\r', (size_t)(feed - line));
        stop = stop ? stop : feed;
        next = stop == head_end ? stop : stop + 1 + (*stop == '\r' && stop + 1 == feed && feed < head_end);
        if (*line != ' ' && *line != '\t')
            dropping = starts_with_name(line, stop, &names);
        if (!dropping) {
            bare = next == stop + 1 && *stop == '\r';
            continue;
        }
        if (!out && !(out = PyMem_Malloc((size_t)size))) {
            PyErr_NoMemory();
            goto done;
        }
        memcpy(out + used, kept, (size_t)(line - kept));
        used += line - kept;
        kept = next;
        if (bare) { /* drop it with the line, whose own end then ends the previous line */
            used--;
            memcpy(out + used, stop, (size_t)(next - stop));
            used += next - stop;
            bare = next == stop + 1 && *stop == '\r';
        }
    }
    if (out) {
        memcpy(out + used, kept, (size_t)(end - kept));
        result = PyBytes_FromStringAndSize((const char *)out, used + (end - kept));
    } else
        result = Py_NewRef(raw);
done:
    PyMem_Free(out);
    PyMem_Free(names.name);
    return result;
}

PyMethodDef header_functions[] = {
    {"mail_head", mail_head, METH_VARARGS, mail_head_doc},
    {"without_fields", without_fields, METH_VARARGS, without_fields_doc},
    {NULL, NULL, 0, NULL},
};
