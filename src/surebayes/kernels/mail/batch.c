/* Parsing of many messages at once, without the GIL. Messages that need Python code are left to read_mail. */
#include "../hashing.h"
#include "../gil.h"
#include "blake2.h"
#include "fingerprint.h"
#include "header_tokens.h"
#include "mime.h"
#include "module.h"

/* The result for one message: consecutive pieces in `Batch.made`, with the fingerprint after the text. */
typedef struct {
    const char *data;
    Py_ssize_t size;
    bool plain;
    size_t text, fingerprint, name, listed, columns; /* bytes of each */
} Mail;

typedef struct {
    MailLimits limits;
    size_t most; /* maximum characters of a text */
    bool listed, named;
    uint32_t width; /* of the columns of header tokens; 0: no tokens at all */
    MailReader reader;
    Tokens *tokens;
    Scratch text, folded, lower, made;
} Batch;

/* The number of bytes of the first characters of a text in UTF-8. */
static size_t first_characters(const unsigned char *p, size_t size, size_t most)
{
    if (size <= most)
        return size;
    for (size_t i = 0; i < size; i++)
        if ((p[i] & 0xC0) != 0x80 && !most--)
            return i;
    return size;
}

/* Subject and text, with a line end between them, in batch->text. */
static Status join_text(Batch *batch, Span subject, Py_ssize_t *subject_size)
{
    MailReader *r = &batch->reader;
    Scratch *text = &batch->text;
    if (reserve(&text->at, &text->room, (size_t)subject.size + r->size + 1, 1) != OK)
        return NO_MEMORY;
    *subject_size = subject.size ? unfold_subject(subject, text->at) : 0;
    if (*subject_size < 0)
        return OK;
    text->size = (size_t)*subject_size;
    text->at[text->size++] = '\n';
    if (r->size)
        memcpy(text->at + text->size, r->text, r->size);
    text->size += r->size;
    return OK;
}

/* Add the columns of the tokens listed at the end of batch->made. */
static Status put_columns(Batch *batch, Mail *mail)
{
    Scratch *made = &batch->made;
    size_t from = made->size - mail->listed, n = 0;
    for (size_t at = 0; at < mail->listed; n++)
        at += 2 + ((size_t)made->at[from + at] | (size_t)made->at[from + at + 1] << 8);
    if (reserve(&made->at, &made->room, made->size + 4 * n + PADDING, 1) != OK)
        return NO_MEMORY;
    for (size_t at = 0; at < mail->listed;) {
        size_t size = (size_t)made->at[from + at] | (size_t)made->at[from + at + 1] << 8;
        uint32_t column = column_of(murmur3(made->at + from + at + 2, size), batch->width);
        memcpy(made->at + made->size, &column, 4);
        made->size += 4;
        at += 2 + size;
    }
    mail->columns = 4 * n;
    return OK;
}

/* Add the fingerprint and the Message-ID of a message; the message isn't plain if its Message-ID isn't. */
static Status put_names(Batch *batch, Mail *mail, Span identity, Py_ssize_t subject)
{
    Scratch *made = &batch->made, *text = &batch->text, *folded = &batch->folded;
    Span parts[2] = {{text->at, subject}, {text->at + subject + 1, (Py_ssize_t)text->size - subject - 1}};
    Py_ssize_t name;
    if (reserve(&folded->at, &folded->room, text->size + (size_t)identity.size + FOLDED_MORE, 1) != OK)
        return NO_MEMORY;
    Py_ssize_t size = fold_parts(identity, parts[0], parts[1], (char *)folded->at, &name);
    mail->plain = size >= 0;
    if (!mail->plain)
        return OK;
    mail->name = (size_t)name;
    mail->fingerprint = FINGERPRINT_DIGITS;
    if (reserve(&made->at, &made->room, made->size + FINGERPRINT_DIGITS + mail->name, 1) != OK)
        return NO_MEMORY;
    fingerprint_digits(folded->at, (size_t)size, (char *)made->at + made->size);
    memcpy(made->at + made->size + FINGERPRINT_DIGITS, folded->at, mail->name);
    made->size += FINGERPRINT_DIGITS + mail->name;
    return OK;
}

/* Add the header tokens and their columns; the message isn't plain if its header isn't. */
static Status put_tokens(Batch *batch, Mail *mail, const MailHead *head, Py_ssize_t subject)
{
    const unsigned char *start = batch->reader.base;
    size_t before = batch->made.size;
    Status status = put_plain_tokens(batch->tokens, (Span){start, head->end - start}, (Span){batch->text.at, subject},
                                     batch->reader.plain, batch->reader.n_plain, batch->limits.headers,
                                     batch->limits.header_length, &batch->lower, &batch->made, &mail->plain);
    mail->listed = batch->made.size - before;
    return status == OK && mail->plain ? put_columns(batch, mail) : status;
}

static Status make(Batch *batch, Mail *mail)
{
    MailHead head;
    MailReader *r = &batch->reader;
    Scratch *made = &batch->made, *text = &batch->text;
    Py_ssize_t subject;
    size_t from = made->size;
    MailStatus read = read_whole(r, mail->data, mail->size, &batch->limits, &head);
    if (read == MAIL_ERROR)
        return NO_MEMORY; /* the only possible error without Python */
    if (read == MAIL_OTHER || (batch->width && head.end == r->base))
        return OK;
    if (join_text(batch, head.value[3], &subject) != OK)
        return NO_MEMORY;
    if (subject < 0 ||
        ((odd_bytes(text->at, (Py_ssize_t)text->size) & 1) && !is_utf8(text->at, (Py_ssize_t)text->size)))
        return OK;
    mail->text = first_characters(text->at, text->size, batch->most);
    if (reserve(&made->at, &made->room, from + mail->text, 1) != OK)
        return NO_MEMORY;
    if (mail->text)
        memcpy(made->at + from, text->at, mail->text);
    made->size += mail->text;
    mail->plain = true;
    Status status = batch->named ? put_names(batch, mail, head.value[4], subject) : OK;
    if (status == OK && mail->plain && batch->width)
        status = put_tokens(batch, mail, &head, subject);
    if (!mail->plain)
        made->size = from;
    return status;
}

/* The parts of the result, by the names of a document's parts. */
enum { KEY_TEXT, KEY_FINGERPRINT, KEY_MESSAGE_ID, KEY_LISTED_TOKENS, KEY_COLUMNS, KEYS };
static const char *const key_names[KEYS] = {"text", "fingerprint", "message_id", "listed_tokens", "columns"};

static PyObject *give(const Batch *batch, const Mail *mail, const char *made, PyObject *const *names)
{
    const char *fingerprint = made + mail->text, *name = fingerprint + mail->fingerprint, *listed = name + mail->name;
    const struct {
        bool wanted, text;
        const char *data;
        size_t size;
    } parts[KEYS] = {
        [KEY_TEXT] = {true, true, made, mail->text},
        [KEY_FINGERPRINT] = {batch->named, true, fingerprint, FINGERPRINT_DIGITS},
        [KEY_MESSAGE_ID] = {batch->named, true, name, mail->name},
        [KEY_LISTED_TOKENS] = {batch->listed, false, listed, mail->listed},
        [KEY_COLUMNS] = {batch->width != 0, false, listed + mail->listed, mail->columns},
    };
    PyObject *given = PyDict_New();
    for (int k = 0; given && k < KEYS; k++) {
        if (!parts[k].wanted)
            continue;
        Py_ssize_t size = (Py_ssize_t)parts[k].size;
        PyObject *value = parts[k].text ? PyUnicode_DecodeUTF8(parts[k].data, size, NULL)
                                        : PyBytes_FromStringAndSize(parts[k].data, size);
        if (!value || PyDict_SetItem(given, names[k], value) < 0)
            Py_CLEAR(given);
        Py_XDECREF(value);
    }
    return given;
}

PyDoc_STRVAR(
    read_mails_doc,
    "read_mails(mails, bytes, parts, depth, headers, header_length, decoded, most, width, listed, named, /)\n--\n\n"
    "Return a dict for each message of a list: the first `most` characters of subject and `text`; if "
    "`named`, its `fingerprint` and its `message_id` without white space; if `listed`, its header tokens, "
    "each after its size, as `listed_tokens`; and, unless `width` is 0, their `columns`. None for a "
    "message for which read_mail or header_tokens would need Python, or that exceeds a limit. Releases "
    "the GIL.");

static PyObject *read_mails(PyObject *module, PyObject *args)
{
    PyObject *given, *held = NULL, *result = NULL, *names[KEYS] = {NULL};
    Batch batch = {.reader = {.fallback = Py_None}};
    MailLimits *limits = &batch.limits;
    Py_ssize_t most, width, total = 0;
    int listed, named;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!nnnnnnnnpp:read_mails", &PyList_Type, &given, &limits->bytes, &limits->parts,
                          &limits->depth, &limits->headers, &limits->header_length, &limits->decoded, &most, &width,
                          &listed, &named))
        return NULL;
    if (limits->bytes < 0 || limits->parts < 0 || limits->depth < 0 || limits->headers < 0 ||
        limits->header_length < 0 || limits->decoded < 0 || most < 0 || width < 0 || width > 0x7fffffff ||
        (listed && !width)) {
        PyErr_SetString(PyExc_ValueError, "read_mails: limits must not be negative, and to list tokens takes a width");
        return NULL;
    }
    batch.most = (size_t)most;
    batch.width = (uint32_t)width;
    batch.listed = listed;
    batch.named = named;
    Py_ssize_t n = PyList_Size(given);
    Mail *mails = calloc((size_t)n + 1, sizeof *mails);
    if (!mails || !(batch.tokens = tokens_open())) {
        PyErr_NoMemory();
        goto done;
    }
    if (!(held = PyList_GetSlice(given, 0, n))) /* a copy: other threads may change the list */
        goto done;
    for (Py_ssize_t i = 0; i < n; i++) {
        char *data;
        if (PyBytes_AsStringAndSize(PyList_GetItem(held, i), &data, &mails[i].size) < 0)
            goto done;
        mails[i].data = data;
        total += mails[i].size;
    }
    Status status = OK;
    PyThreadState *thread = release_gil((size_t)n, (size_t)total);
    for (Py_ssize_t i = 0; i < n && status == OK; i++)
        status = make(&batch, &mails[i]);
    restore_gil(thread);
    if (status != OK) {
        PyErr_NoMemory();
        goto done;
    }
    for (int k = 0; k < KEYS; k++)
        if (!(names[k] = PyUnicode_InternFromString(key_names[k])))
            goto done;
    result = PyList_New(n);
    const char *made = (const char *)batch.made.at;
    for (Py_ssize_t i = 0; result && i < n; i++) {
        const Mail *mail = &mails[i];
        PyObject *one = mail->plain ? give(&batch, mail, made, names) : Py_NewRef(Py_None);
        if (!one || PyList_SetItem(result, i, one) < 0)
            Py_CLEAR(result);
        else if (mail->plain)
            made += mail->text + mail->fingerprint + mail->name + mail->listed + mail->columns;
    }
done:
    for (int k = 0; k < KEYS; k++)
        Py_XDECREF(names[k]);
    Py_XDECREF(held);
    free(mails);
    tokens_close(batch.tokens);
    free(batch.reader.text);
    free(batch.text.at);
    free(batch.folded.at);
    free(batch.lower.at);
    free(batch.made.at);
    return result;
}

PyMethodDef batch_functions[] = {
    {"read_mails", read_mails, METH_VARARGS, read_mails_doc},
    {NULL, NULL, 0, NULL},
};
