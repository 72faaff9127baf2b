/* Parsing of complete messages that are within all limits. Messages beyond a limit are left to surebayes/mail/mime.py,
 * which has the same results. Unusual content of a part (characters beyond ASCII, base64, file names) is decoded by the
 * functions of headers.py.
 *
 * The text of all parts is collected in UTF-8. Limits in characters are compared with the number of bytes, which is
 * never smaller. */

#include "mime.h"

#include "../gil.h"
#include "html.h"
#include "module.h"

enum { MAIL_DEPTH = 16, MAIL_BOUNDARY = 200 }; /* deeper messages and longer boundaries are left to mime.py */
enum { KIND_VALUES, KIND_FUNCTION, DECODE_TEXT, DECODE_BASE64, FILENAME, MAIL_HELPERS };

/* Add a text in UTF-8. */
static MailStatus put_text(MailReader *r, const unsigned char *data, Py_ssize_t size, bool returns, bool html)
{
    if (size > r->room)
        return MAIL_OTHER;
    if (reserve(&r->text, &r->capacity, r->size + (size_t)HTML_ROOM(size) + 1, 1) != OK)
        return MAIL_ERROR;
    if (r->started)
        r->text[r->size++] = '\n';
    r->started = true;
    unsigned char *out = r->text + r->size, *lines = NULL;
    if (html && returns) {
        if (!(lines = malloc((size_t)size + PADDING)))
            return MAIL_ERROR;
        size = copy_lines(data, size, lines);
        data = lines;
    }
    if (!html && returns)
        size = copy_lines(data, size, out);
    else if (!html && size)
        memcpy(out, data, (size_t)size);
    r->room -= size;
    if (html) {
        PyThreadState *thread = r->helpers && size > LONG_HTML ? PyEval_SaveThread() : NULL;
        size = html_visible(data, size, r->flags, out);
        restore_gil(thread);
    }
    free(lines);
    if (size < 0)
        return MAIL_ERROR;
    r->size += (size_t)size;
    return MAIL_READ;
}

/* Add a text as received, after its transfer encoding was decoded. */
static MailStatus put_decoded(MailReader *r, const unsigned char *data, Py_ssize_t size, bool html, MailSet set,
                              PyObject *charset)
{
    int odd = odd_bytes(data, size);
    if (!(odd & 1) && set != SET_OTHER)
        return put_text(r, data, size, odd & 2, html);
    if (set == SET_UNDECLARED && is_utf8(data, size))
        return put_text(r, data, size, odd & 2, html);
    if (set == SET_UNDECLARED && r->fallback == Py_None)
        set = SET_WINDOWS;
    if (set == SET_WINDOWS || (set == SET_UTF_8 && r->fallback == Py_None)) {
        unsigned char *wide = malloc(3 * (size_t)size);
        if (!wide)
            return MAIL_ERROR;
        MailStatus status = put_text(r, wide, widen(data, size, set, wide), odd & 2, html);
        free(wide);
        return status;
    }
    if (!r->helpers || size > r->room / 3)
        return MAIL_OTHER; /* in UTF-8 it may exceed the room */
    PyObject *text = PyObject_CallFunction(PyTuple_GetItem(r->helpers, DECODE_TEXT), "y#OO", (const char *)data, size,
                                           charset, r->fallback);
    if (!text)
        return MAIL_ERROR;
    MailStatus status = MAIL_OTHER;
    const char *encoded = PyUnicode_AsUTF8AndSize(text, &size);
    if (encoded)
        status = put_text(r, (const unsigned char *)encoded, size, size && memchr(encoded, '\r', (size_t)size), html);
    else
        PyErr_Clear();
    Py_DECREF(text);
    return status;
}

/* Add the text of a part. */
static MailStatus read_text(MailReader *r, const unsigned char *start, const unsigned char *end, bool html, MailSet set,
                            PyObject *charset, Span coding)
{
    Py_ssize_t size = end - start;
    MailStatus status = MAIL_ERROR;
    if (size > r->room)
        return MAIL_OTHER;
    switch (mail_coding(coding)) {
    case CODING_OTHER: return MAIL_OTHER;
    case CODING_NONE: return put_decoded(r, start, size, html, set, charset);
    case CODING_QUOTED: {
        unsigned char *data = malloc((size_t)size + 1);
        if (!data)
            return MAIL_ERROR;
        status = put_decoded(r, data, unquote_printable(start, size, data), html, set, charset);
        free(data);
        return status;
    }
    case CODING_BASE64: {
        char *data;
        if (!r->helpers)
            return MAIL_OTHER;
        PyObject *bytes = PyObject_CallFunction(PyTuple_GetItem(r->helpers, DECODE_BASE64), "y#", (const char *)start,
                                                size);
        if (bytes && PyBytes_AsStringAndSize(bytes, &data, &size) == 0)
            status = put_decoded(r, (const unsigned char *)data, size, html, set, charset);
        Py_XDECREF(bytes);
    }
    }
    return status;
}

/* Record an attachment without Python; MAIL_OTHER if its type or name isn't plain. */
static MailStatus put_plain_attachment(MailReader *r, const ContentType *kind, Span disposition, Span type)
{
    Span name;
    if (!plain_filename(disposition, type, &name))
        return MAIL_OTHER;
    for (size_t i = 0; i < kind->name_size; i++)
        if (kind->name[i] <= ' ' || kind->name[i] > '~')
            return MAIL_OTHER;
    if (r->n_plain == MOST_ATTACHMENTS)
        return MAIL_READ;
    PlainAttachment *one = r->plain + r->n_plain++;
    one->type_size = kind->name_size < sizeof one->type ? kind->name_size : sizeof one->type;
    memcpy(one->type, kind->name, one->type_size);
    Py_ssize_t dot = name.size;
    while (dot && name.at[dot - 1] != '.')
        dot--;
    one->has_ending = dot > 0;
    size_t left = (size_t)(name.size - dot);
    one->ending_size = left < sizeof one->ending ? left : sizeof one->ending;
    for (size_t i = 0; i < one->ending_size; i++)
        one->ending[i] = (char)to_lower(name.at[(size_t)dot + i]);
    return MAIL_READ;
}

static MailStatus put_attachment(MailReader *r, const ContentType *plain, PyObject *kind, Span disposition, Span type)
{
    if (!r->helpers)
        return put_plain_attachment(r, plain, disposition, type);
    PyObject *name = PyObject_CallFunction(PyTuple_GetItem(r->helpers, FILENAME), "y#y#",
                                           disposition.at ? (const char *)disposition.at : "", disposition.size,
                                           type.at ? (const char *)type.at : "", type.size);
    PyObject *pair = name ? PyTuple_Pack(2, kind, name) : NULL;
    if (!r->attachments)
        r->attachments = PyList_New(0);
    int failed = !pair || !r->attachments || PyList_Append(r->attachments, pair) < 0;
    Py_XDECREF(name);
    Py_XDECREF(pair);
    return failed ? MAIL_ERROR : MAIL_READ;
}

static MailStatus read_part(MailReader *r, const unsigned char *start, const unsigned char *end, int depth, bool digest,
                            MailHead *head);

/* The next line end before two hyphens and a boundary, or NULL. A message is searched once per level of nesting. */
static const unsigned char *find_separator(const unsigned char *p, const unsigned char *end, Span boundary)
{
    const unsigned char *stop = end - p >= boundary.size + 3 ? end - boundary.size - 2 : p; /* limit of its start */
#if defined(__SSE2__)
    for (; stop - p >= 16; p += 16) {
        __m128i ends = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), _mm_set1_epi8('\n'));
        __m128i hyphens = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 1)), _mm_set1_epi8('-'));
        unsigned both = (unsigned)_mm_movemask_epi8(_mm_and_si128(ends, hyphens));
        for (; both; both &= both - 1) {
            const unsigned char *line = p + lowest_bit(both);
            if (line[2] == '-' && !memcmp(line + 3, boundary.at, (size_t)boundary.size))
                return line;
        }
    }
#endif
    for (; p < stop && (p = memchr(p, '\n', (size_t)(stop - p))); p++)
        if (p[1] == '-' && p[2] == '-' && !memcmp(p + 3, boundary.at, (size_t)boundary.size))
            return p;
    return NULL;
}

/* Read the parts between the lines that start with a boundary; `found` stays false if there is no such line. */
static MailStatus read_parts(MailReader *r, const unsigned char *start, const unsigned char *end, Span boundary,
                             int depth, bool digest, bool *found)
{
    const unsigned char *p = start - 1, *begin = NULL; /* at the line end before the body */
    MailStatus status = MAIL_READ;
    MailHead head;
    while ((p = find_separator(p, end, boundary))) {
        const unsigned char *line = p;
        if (--r->boundaries < 0) {
            r->truncated = true;
            break;
        }
        p = line + 3 + boundary.size;
        const unsigned char *line_end = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL, *rest = p, *stop;
        if (!line_end)
            line_end = end;
        stop = line_end - p < 80 ? line_end : p + 80;
        while (rest < stop && (*rest == ' ' || *rest == '\t' || *rest == '\r'))
            rest++;
        while (stop > rest && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r'))
            stop--;
        bool last = stop - rest == 2 && rest[0] == '-' && rest[1] == '-';
        if (stop > rest && !last)
            continue; /* a longer boundary that starts like this one */
        if (!begin && last)
            return MAIL_READ;
        *found = true;
        if (begin && r->parts <= 0) {
            r->truncated = true;
            return MAIL_READ;
        }
        if (begin && begin < line)
            status = read_part(r, begin, line[-1] == '\r' ? line - 1 : line, depth + 1, digest, &head);
        if (status != MAIL_READ || last)
            return status;
        if (line_end == end)
            return MAIL_READ; /* nothing follows */
        begin = line_end + 1;
        p = line_end;
    }
    return begin && begin < end ? read_part(r, begin, end, depth + 1, digest, &head) : MAIL_READ;
}

/* Type, character set and boundary of a part, from content_kind: a tuple that owns the strings of `kind`. */
static PyObject *asked_kind(const MailReader *r, Span value, ContentType *kind)
{
    PyObject *key = PyBytes_FromStringAndSize((const char *)value.at, value.size), *name, *charset, *boundary;
    PyObject *known = key ? PyDict_GetItemWithError(PyTuple_GetItem(r->helpers, KIND_VALUES), key) : NULL;
    char *line;
    Py_ssize_t size;
    if (known)
        Py_INCREF(known);
    else if (key && !PyErr_Occurred())
        known = PyObject_CallFunctionObjArgs(PyTuple_GetItem(r->helpers, KIND_FUNCTION), key, NULL);
    Py_XDECREF(key);
    if (!known)
        return NULL;
    const char *text = PyArg_ParseTuple(known, "OOO", &name, &charset, &boundary) ? PyUnicode_AsUTF8AndSize(name, &size)
                                                                                  : NULL;
    if (!text || PyBytes_AsStringAndSize(boundary, &line, &kind->boundary.size) < 0) {
        Py_DECREF(known);
        return NULL;
    }
    kind->boundary.at = (const unsigned char *)line;
    kind->type = part_type(text, size);
    kind->set = mail_set(charset);
    return known;
}

static MailStatus read_body(MailReader *r, const MailHead *head, const unsigned char *end, int depth,
                            const ContentType *kind, PyObject *name, PyObject *charset)
{
    Span type = head->value[0], coding = head->value[1], disposition = head->value[2];
    MailStatus status = MAIL_READ;
    switch (kind->type) {
    case PART_TEXT:
    case PART_HTML:
        status = read_text(r, head->body, end, kind->type == PART_HTML, kind->set, charset, coding);
        if (status == MAIL_READ && value_starts(disposition, 99, "attachment"))
            status = put_attachment(r, kind, name, disposition, type);
        return status;
    case PART_MULTIPART:
    case PART_DIGEST: {
        bool found = false;
        Span line = kind->boundary;
        if (line.size > MAIL_BOUNDARY || memchr(line.at, '\n', (size_t)line.size) || head->body == r->base)
            return MAIL_OTHER;
        if (line.size)
            status = read_parts(r, head->body, end, line, depth, kind->type == PART_DIGEST, &found);
        return found || status != MAIL_READ ? status : read_text(r, head->body, end, false, kind->set, charset, coding);
    }
    case PART_MESSAGE: {
        MailHead inner;
        return read_part(r, head->body, end, depth + 1, false, &inner);
    }
    default: return put_attachment(r, kind, name, disposition, type);
    }
}

static MailStatus read_part(MailReader *r, const unsigned char *start, const unsigned char *end, int depth, bool digest,
                            MailHead *head)
{
    if (depth && (r->parts <= 0 || depth > r->depth)) {
        r->truncated = true;
        return MAIL_READ;
    }
    if (r->parts <= 0 || r->depth < 0 || depth > MAIL_DEPTH)
        return MAIL_OTHER;
    r->parts--;
    scan_head(start, end, head);
    if (head->longest > r->longest)
        return MAIL_OTHER;
    ContentType kind;
    Span value = head->value[0];
    if (!value.size)
        value = digest ? (Span){(const unsigned char *)"message/rfc822", 14}
                       : (Span){(const unsigned char *)"text/plain", 10};
    if (!r->helpers)
        return plain_content_type(value, &kind) ? read_body(r, head, end, depth, &kind, NULL, NULL) : MAIL_OTHER;
    PyObject *known = asked_kind(r, value, &kind);
    if (!known)
        return MAIL_ERROR;
    MailStatus status = read_body(r, head, end, depth, &kind, PyTuple_GetItem(known, 0), PyTuple_GetItem(known, 1));
    Py_DECREF(known);
    return status;
}

Py_ssize_t unfold_subject(Span value, unsigned char *out)
{
    const unsigned char *p = value.at, *end = p + value.size, *mark = p;
    unsigned char *to = out;
    while (mark < end && (mark = memchr(mark, '=', (size_t)(end - mark))))
        if (++mark < end && *mark == '?')
            return -1;
    while (p < end) { /* line by line; white-space lines are skipped if there are several */
        const unsigned char *stop = p, *next;
        bool kept = false;
        for (; stop < end && *stop != '\r' && *stop != '\n'; stop++)
            kept = kept || !is_blank(*stop);
        kept = kept || (p == value.at && stop == end);
        next = stop + 1;
        while (p < stop && (*p == ' ' || *p == '\t'))
            p++;
        while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (kept) {
            if (to > out)
                *to++ = ' ';
            memcpy(to, p, (size_t)(stop - p));
            to += stop - p;
        }
        p = next;
    }
    return to - out;
}

/* The subject, unfolded and decoded like decode_header; its bytes if it may have encoded words or isn't UTF-8. */
static PyObject *mail_subject(Span value)
{
    if (!value.size)
        return PyUnicode_FromStringAndSize("", 0);
    unsigned char small[256], *out = value.size < (Py_ssize_t)sizeof small ? small : PyMem_Malloc((size_t)value.size);
    if (!out)
        return PyErr_NoMemory();
    Py_ssize_t size = unfold_subject(value, out);
    PyObject *subject = size < 0 ? NULL : PyUnicode_DecodeUTF8((const char *)out, size, NULL);
    if (!subject && (size < 0 || PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))) {
        PyErr_Clear();
        subject = PyBytes_FromStringAndSize((const char *)value.at, value.size);
    }
    if (out != small)
        PyMem_Free(out);
    return subject;
}

MailStatus read_whole(MailReader *r, const char *data, Py_ssize_t size, const MailLimits *limits, MailHead *head)
{
    r->base = (const unsigned char *)data;
    r->parts = limits->parts;
    r->depth = limits->depth;
    r->longest = limits->header_length;
    r->room = limits->decoded;
    r->boundaries = r->parts < PY_SSIZE_T_MAX / 10 ? 10 * r->parts : PY_SSIZE_T_MAX;
    r->size = 0;
    r->n_plain = 0;
    r->started = r->truncated = false;
    /* a message without \n at its start may have lone \r as line ends */
    if (size > limits->bytes || !memchr(data, '\n', size < 65536 ? (size_t)size : 65536))
        return MAIL_OTHER;
    MailStatus status = read_part(r, r->base, r->base + size, 0, false, head);
    return status == MAIL_READ && head->count > limits->headers ? MAIL_OTHER : status;
}

PyObject *tuple_of(PyObject **items, int n)
{
    PyObject *result = PyTuple_New(n);
    bool whole = result != NULL;
    for (int k = 0; k < n; k++) {
        whole = whole && items[k];
        if (result)
            PyTuple_SetItem(result, k, items[k]);
        else
            Py_XDECREF(items[k]);
    }
    if (!whole)
        Py_CLEAR(result);
    return result;
}

static PyObject *mail_result(const MailReader *r, const MailHead *head)
{
    Span identity = head->value[4];
    PyObject *items[6] = {
        mail_subject(head->value[3]),
        PyUnicode_DecodeUTF8(r->text ? (const char *)r->text : "", (Py_ssize_t)r->size, "replace"),
        r->attachments ? PyList_AsTuple(r->attachments) : PyTuple_New(0),
        Py_NewRef(r->truncated ? Py_True : Py_False),
        PyBytes_FromStringAndSize((const char *)r->base, head->end - r->base),
        PyBytes_FromStringAndSize((const char *)identity.at, identity.size),
    };
    return tuple_of(items, 6);
}

PyDoc_STRVAR(read_mail_doc,
             "read_mail(raw, bytes, parts, depth, headers, header_length, decoded, flags, fallback, helpers, /)\n--\n\n"
             "Return subject, text, attachments, whether parts were left out, header block and Message-ID of a "
             "message; None for a message that exceeds another limit or is unusual, which is left to the reader in "
             "Python. A subject that may have encoded words is returned as bytes. Helpers: known content types and "
             "the functions content_kind, decode_text, decode_base64, filename of _headers.");

static PyObject *read_mail(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    char *data;
    Py_ssize_t size, limit[7];
    MailHead head;
    (void)module;
    if (n != 10 || !PyTuple_Check(args[9]) || PyTuple_Size(args[9]) != MAIL_HELPERS ||
        !PyDict_Check(PyTuple_GetItem(args[9], 0))) {
        PyErr_SetString(PyExc_TypeError,
                        "read_mail needs bytes, seven integers, a codec or None, and a tuple of five helpers");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(args[0], &data, &size) < 0)
        return NULL;
    for (int k = 0; k < 7; k++) {
        limit[k] = PyNumber_AsSsize_t(args[k + 1], NULL); /* clipped to the range: a limit may be any integer */
        if (limit[k] == -1 && PyErr_Occurred())
            return NULL;
        if (limit[k] < 0) {
            PyErr_SetString(PyExc_ValueError, "read_mail: limits and flags must not be negative");
            return NULL;
        }
    }
    MailReader r = {.flags = (int)limit[6], .fallback = args[8], .helpers = args[9]};
    MailLimits limits = {limit[0], limit[1], limit[2], limit[3], limit[4], limit[5]};
    MailStatus status = read_whole(&r, data, size, &limits, &head);
    PyObject *result = NULL;
    if (status == MAIL_READ)
        result = mail_result(&r, &head);
    else if (status == MAIL_OTHER)
        result = Py_NewRef(Py_None);
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    free(r.text);
    Py_XDECREF(r.attachments);
    return result;
}

PyMethodDef mime_functions[] = {
    {"read_mail", (PyCFunction)(void (*)(void))read_mail, METH_FASTCALL, read_mail_doc},
    {NULL, NULL, 0, NULL},
};
