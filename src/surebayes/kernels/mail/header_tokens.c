/* Header tokens, equal to those of header_tokens.py. This file handles plain ASCII fields. For other fields (encoded
 * words, raw 8-bit characters, white space that only str.split recognises, RFC 2231), a callback returns the tokens.
 *
 * All work is done on a lower-case copy of the header block; values are unfolded in place. Each byte is read a few
 * times. */

#include "header_tokens.h"

#include "../hashing.h"
#include "header_tables.h"
#include "module.h"

enum { MOST_HOSTS = 20, MOST_HOPS = 12 };
enum { TOKEN_FIELDS = sizeof token_fields / sizeof *token_fields };

enum { ENDS_ADDRESS = 1, ENDS_HOST = 2, ENDS_WORD = 4, NOT_PLAIN = 8, ENDS_LINE = 16, MAY_ENCODE = 32 };
static const uint8_t ascii_marks[128] = {
    [' '] = ENDS_ADDRESS | ENDS_HOST | ENDS_WORD,
    ['\t'] = ENDS_ADDRESS | ENDS_HOST | ENDS_WORD,
    ['<'] = ENDS_ADDRESS | ENDS_HOST,
    ['>'] = ENDS_ADDRESS | ENDS_HOST,
    [','] = ENDS_ADDRESS | ENDS_HOST,
    [';'] = ENDS_ADDRESS | ENDS_HOST,
    ['('] = ENDS_ADDRESS | ENDS_HOST,
    [')'] = ENDS_ADDRESS | ENDS_HOST,
    ['['] = ENDS_ADDRESS | ENDS_HOST,
    [']'] = ENDS_ADDRESS | ENDS_HOST,
    ['"'] = ENDS_ADDRESS,
    ['\''] = ENDS_ADDRESS,
    [':'] = ENDS_ADDRESS,
    ['='] = ENDS_HOST,
    ['\r'] = ENDS_LINE,
    ['\n'] = ENDS_LINE,
    ['?'] = MAY_ENCODE,
    [0x0b] = NOT_PLAIN,
    [0x0c] = NOT_PLAIN,
    [0x1c] = NOT_PLAIN,
    [0x1d] = NOT_PLAIN,
    [0x1e] = NOT_PLAIN,
    [0x1f] = NOT_PLAIN,
};

typedef struct {
    uint8_t *at;
    size_t size;
} Piece;
typedef struct {
    Piece value[MOST_VALUES], before[MOST_VALUES];
    int n;
} Values; /* unfolded, and raw */
struct Tokens {
    uint8_t *text; /* the concatenated tokens */
    size_t size, room;
    size_t end[MOST_TOKENS]; /* the end of each in the text */
    int n;
    bool no_memory;
    Values field[READ_FIELDS];
    Piece name[MOST_NAMES + 1]; /* less usual field names, distinct and ascending */
    int names;
};

/* The caller's function for fields that aren't plain. */
typedef struct {
    PyObject *function, *encoded_words;
} Odd;

typedef enum { TOKENS_MADE, TOKENS_ELSEWHERE, TOKENS_ERROR } TokenStatus;

static void token_put(Tokens *t, const char *field, const uint8_t *word, size_t size)
{
    size_t prefix = strlen(field);
    if (t->n == MOST_TOKENS || t->no_memory)
        return;
    if (reserve(&t->text, &t->room, t->size + prefix + size + PADDING, 1) != OK) {
        t->no_memory = true;
        return;
    }
    memcpy(t->text + t->size, field, prefix);
    if (size)
        memcpy(t->text + t->size + prefix, word, size);
    t->size += prefix + size;
    t->end[t->n++] = t->size;
}

static inline size_t at_most(size_t size, size_t most)
{
    return size < most ? size : most;
}

static inline bool is_low(uint8_t c)
{
    return (unsigned)(c - 'a') < 26;
}

static bool all_digits(const uint8_t *p, const uint8_t *end)
{
    if (p == end)
        return false;
    while (p < end && is_digit(*p))
        p++;
    return p == end;
}

static void lower_copy(uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = (uint8_t)(from[i] + ((uint8_t)(from[i] - 'A') < 26 ? 32 : 0));
}

/* The next run of bytes without a mark, from p on; NULL if there is none. */
static inline const uint8_t *next_run(const uint8_t *p, const uint8_t *end, uint8_t mark, const uint8_t **run_end)
{
    while (p < end && ascii_marks[*p] & mark)
        p++;
    if (p == end)
        return NULL;
    const uint8_t *q = p + 1;
    while (q < end && !(ascii_marks[*q] & mark))
        q++;
    *run_end = q;
    return p;
}

/* Words of two letters or more, the first `most` of them. */
static void put_words(Tokens *t, const char *field, const uint8_t *p, size_t size, int most)
{
    const uint8_t *end = p + size;
    while (p < end && most) {
        const uint8_t *start = p;
        while (p < end && (is_low(*p) || is_digit(*p) || *p == '_'))
            p++;
        if (p - start > 1) {
            token_put(t, field, start, (size_t)(p - start));
            most--;
        }
        p += p < end;
    }
}

/* The next mail address from *p on: local part, and host without surrounding dots. */
static bool next_address(const uint8_t **p, const uint8_t *end, Piece *local, Piece *host)
{
    const uint8_t *word, *stop;
    while ((word = next_run(*p, end, ENDS_ADDRESS, &stop))) {
        *p = stop;
        const uint8_t *at = stop;
        while (at > word && at[-1] != '@')
            at--;
        if (at - word < 2 || stop - word >= 255)
            continue;
        *local = (Piece){(uint8_t *)word, (size_t)(at - 1 - word)};
        while (at < stop && *at == '.')
            at++;
        while (at < stop && stop[-1] == '.')
            stop--;
        *host = (Piece){(uint8_t *)at, (size_t)(stop - at)};
        if (host->size)
            return true;
    }
    return false;
}

static void put_sender(Tokens *t, const char *field, const char *host_field, Piece value, bool with_name)
{
    const uint8_t *p = value.at, *end = p + at_most(value.size, 1000);
    uint8_t whole[256];
    Piece local, host;
    for (int k = 0; k < 4 && next_address(&p, end, &local, &host); k++) {
        memcpy(whole, local.at, local.size);
        whole[local.size] = '@';
        memcpy(whole + local.size + 1, host.at, host.size);
        token_put(t, field, whole, local.size + 1 + host.size);
        token_put(t, host_field, host.at, host.size);
    }
    const uint8_t *bracket = with_name && value.size ? memchr(value.at, '<', (size_t)(end - value.at)) : NULL;
    if (bracket)
        put_words(t, field, value.at, (size_t)(bracket - value.at), 10);
}

/* Insert a piece into a sorted list of the `most` smallest distinct ones, with room for one more. */
static void keep_smallest(Piece *list, int *n, int most, Piece piece)
{
    int low = 0, high = *n;
    while (low < high) {
        int middle = (low + high) / 2;
        Piece other = list[middle];
        int order = memcmp(piece.at, other.at, at_most(piece.size, other.size));
        if (!order && piece.size == other.size)
            return;
        if (order < 0 || (!order && piece.size < other.size))
            high = middle;
        else
            low = middle + 1;
    }
    memmove(list + low + 1, list + low, (size_t)(*n - low) * sizeof *list);
    list[low] = piece;
    if (*n < most)
        ++*n;
}

/* Hosts of all addresses, and a token for their number. The values are treated as if joined with a comma and a blank,
 * as in Python. */
static void put_receivers(Tokens *t, const char *host_field, const char *count_field, const Values *values)
{
    Piece hosts[MOST_HOSTS + 1], local, host;
    int n = 0, found = 0;
    size_t room = 4000;
    if (!values->n || (values->n == 1 && !values->value[0].size))
        return;
    for (int k = 0; k < values->n; k++) {
        Piece value = values->value[k];
        const uint8_t *p = value.at, *end = p + at_most(value.size, room);
        while (next_address(&p, end, &local, &host)) {
            keep_smallest(hosts, &n, MOST_HOSTS, host);
            found++;
        }
        room -= at_most(value.size + 2, room);
    }
    for (int k = 0; k < n; k++)
        token_put(t, host_field, hosts[k].at, hosts[k].size);
    const uint8_t digit = (uint8_t)('0' + (found > 0) + (found > 1) + (found > 3) + (found > 7) + (found > 15));
    token_put(t, count_field, &digit, 1);
}

/* Hosts (their last three parts) and networks (the first three numbers of an address) of a Received field. */
static void put_hops(Tokens *t, Piece value)
{
    const uint8_t *end = value.at + at_most(value.size, 1000), *stop = value.at, *word;
    Piece kept[MOST_HOPS];
    int n = 0;
    while (n < MOST_HOPS && (word = next_run(stop, end, ENDS_HOST, &stop))) {
        const uint8_t *last = stop, *dot[3] = {NULL, NULL, NULL}; /* the last three dots, from the end */
        int dots = 0;
        while (word < last && *word == '.')
            word++;
        while (word < last && last[-1] == '.')
            last--;
        if (word == last || !(is_digit(last[-1]) || is_low(last[-1])) || !memchr(word, '.', (size_t)(last - word)))
            continue;
        bool numbers = true, sign = false;
        for (const uint8_t *p = last; p > word; p--) {
            uint8_t c = p[-1];
            if (c == '.') {
                if (dots < 3)
                    dot[dots] = p - 1;
                dots++;
                numbers = numbers && p[-2] != '.'; /* the word starts with another byte */
            } else {
                numbers = numbers && is_digit(c);
                sign = sign || c == '@';
            }
        }
        Piece found;
        if (dots == 3 && numbers)
            found = (Piece){(uint8_t *)word, (size_t)(dot[0] - word)};
        else {
            const uint8_t *p = dots ? dot[0] + 1 : last;
            if (p == last || sign || last - word >= 100)
                continue;
            while (p < last && is_low(*p))
                p++;
            if (p < last)
                continue;
            p = dots > 2 ? dot[2] + 1 : word;
            found = (Piece){(uint8_t *)p, (size_t)(last - p)};
        }
        int k = 0;
        while (k < n && !(kept[k].size == found.size && memcmp(kept[k].at, found.at, found.size) == 0))
            k++;
        if (k < n)
            continue;
        kept[n++] = found;
        token_put(t, "received:", found.at, found.size);
    }
}

static inline const uint8_t *skip_blanks(const uint8_t *p, const uint8_t *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

/* Type and character set; false if Python must read a parameter. */
static bool put_content(Tokens *t, Piece value)
{
    const uint8_t *p = value.at, *end = p + value.size, *stop = p, *slash = NULL;
    int slashes = 0;
    if (!value.size)
        return true;
    while (stop < end && *stop != ';' && *stop != '(')
        stop++;
    p = skip_blanks(p, stop);
    for (slash = p; slash < stop && *slash != ' ' && *slash != '\t'; slash++)
        slashes += *slash == '/';
    if (slashes == 1)
        token_put(t, "content-type:", p, at_most((size_t)(slash - p), 60));
    else
        token_put(t, "content-type:", (const uint8_t *)"text/plain", 10);

    const uint8_t *name = value.at;
    while (end - name >= 7 && memcmp(name, "charset", 7) != 0) {
        const uint8_t *next = memchr(name + 1, 'c', (size_t)(end - name - 1));
        name = next ? next : end;
    }
    if (end - name < 7)
        return true;
    p = skip_blanks(name + 7, end);
    if (p == end || *p != '=' || name == value.at || (name[-1] != ';' && name[-1] != ' ' && name[-1] != '\t'))
        return false;
    if (memchr(value.at, '\\', value.size))
        return false;
    p = skip_blanks(p + 1, end);
    if (p < end && *p == '"') {
        p++;
        stop = p < end ? memchr(p, '"', (size_t)(end - p)) : NULL;
        if (!stop) {
            stop = end;
            while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t'))
                stop--;
        }
    } else {
        stop = p;
        while (stop < end && *stop != ';' && *stop != ' ' && *stop != '\t')
            stop++;
    }
    if (stop > p)
        token_put(t, "charset:", p, at_most((size_t)(stop - p), 40));
    return true;
}

static void put_zone(Tokens *t, Piece value)
{
    const uint8_t *stop = value.at, *end = value.at + at_most(value.size, 100), *word;
    for (int k = 0; (word = next_run(stop, end, ENDS_WORD, &stop)); k++)
        if (k > 3 && (*word == '+' || *word == '-') && all_digits(word + 1, stop)) {
            token_put(t, "date:", word, (size_t)(stop - word));
            return;
        }
}

/* Unfold a value in place: stripped lines, joined by one blank; false if it isn't plain. */
static bool unfold(Piece *value)
{
    uint8_t *p = value->at, *end = p + value->size, *out = NULL, every = 0;
    for (size_t i = 0; i < value->size; i++)
        every |= p[i];
    if (every >= 128)
        return false;
    while (p < end) {
        uint8_t *start = p;
        for (; p < end; p++) {
            uint8_t mark = ascii_marks[*p] & (ENDS_LINE | NOT_PLAIN | MAY_ENCODE);
            if (LIKELY(!mark))
                continue;
            if (mark == ENDS_LINE)
                break;
            if (mark == NOT_PLAIN || (p > start && p[-1] == '='))
                return false;
        }
        uint8_t *stop = p;
        p += p < end;
        while (start < stop && (*start == ' ' || *start == '\t'))
            start++;
        while (start < stop && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if (start == stop)
            continue;
        if (!out) {
            value->at = start;
            out = stop;
            continue;
        }
        *out++ = ' ';
        memmove(out, start, (size_t)(stop - start));
        out += stop - start;
    }
    value->size = out ? (size_t)(out - value->at) : 0;
    return true;
}

static void take_field(Tokens *t, Piece name, Piece value)
{
    for (int k = 0; k < TOKEN_FIELDS; k++)
        if (token_fields[k].size == name.size && memcmp(token_fields[k].name, name.at, name.size) == 0) {
            if (k < READ_FIELDS && t->field[k].n < token_fields[k].most)
                t->field[k].value[t->field[k].n++] = value;
            if (token_fields[k].common)
                return;
            break;
        }
    if (name.size > 2 && memcmp(name.at, "x-", 2) == 0)
        for (size_t k = 0; k < sizeof silent_fields / sizeof *silent_fields; k++)
            if (silent_fields[k].name[2] == name.at[2] && name.size >= silent_fields[k].size &&
                memcmp(silent_fields[k].name, name.at, silent_fields[k].size) == 0)
                return;
    keep_smallest(t->name, &t->names, MOST_NAMES, name);
}

/* Find the fields in a lower-case block, like split_fields; false if there are too many lines. */
static bool take_fields(Tokens *t, uint8_t *line, uint8_t *end, Py_ssize_t most, size_t longest)
{
    for (Py_ssize_t lines = 0, fields = 0; fields < most; lines++) {
        if (lines >= 4 * most)
            return false;
        uint8_t *p = line;
        while (p < end && *p > 32 && *p < 127 && *p != ':')
            p++;
        Piece name = {line, (size_t)(p - line)};
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
        bool is_field = name.size && p < end && *p == ':';
        Piece value = {p + is_field, 0};
        uint8_t *stop;
        for (stop = value.at;; stop++) { /* a line that starts with a blank continues the previous one */
            stop = stop < end ? memchr(stop, '\n', (size_t)(end - stop)) : NULL;
            if (!stop || stop + 1 == end || (stop[1] != ' ' && stop[1] != '\t'))
                break;
        }
        value.size = (size_t)((stop ? stop : end) - value.at);
        if (is_field) {
            value.size = at_most(value.size, longest);
            take_field(t, name, value);
            fields++;
        }
        if (!stop)
            break;
        line = stop + 1;
    }
    return true;
}

static bool is_ascii(const uint8_t *p, const uint8_t *end)
{
    uint8_t every = 0;
    while (p < end)
        every |= *p++;
    return every < 128;
}

/* Types and file name endings of attachments; false unless they are pairs of str with ASCII types and endings. */
static bool put_attachments(Tokens *t, PyObject *attachments)
{
    Py_ssize_t n = PyTuple_Check(attachments) ? PyTuple_Size(attachments) : -1;
    if (n < 0)
        return false;
    for (Py_ssize_t i = 0; i < n && i < MOST_ATTACHMENTS; i++) {
        PyObject *pair = PyTuple_GetItem(attachments, i);
        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2)
            return false;
        for (int k = 0; k < 2; k++) {
            Py_ssize_t size;
            PyObject *text = PyTuple_GetItem(pair, k);
            if (!PyUnicode_Check(text))
                return false;
            const uint8_t *data = (const uint8_t *)PyUnicode_AsUTF8AndSize(text, &size);
            if (!data) { /* lone surrogates */
                PyErr_Clear();
                return false;
            }
            const uint8_t *dot = data + size, *end = dot;
            while (k == 1 && dot > data && dot[-1] != '.')
                dot--;
            if (!is_ascii(k == 0 || dot == data ? data : dot, end))
                return false;
            if (k == 0)
                token_put(t, "attachment:", data, at_most((size_t)size, 60));
            else {
                uint8_t ending[12];
                size_t length = at_most((size_t)(end - dot), sizeof ending);
                lower_copy(ending, dot, length);
                if (dot > data)
                    token_put(t, "attachment:.", ending, length);
            }
        }
    }
    return true;
}

/* Add the tokens of a field from Python's `odd(name, values, encoded_words)`; the values are bytes, or the subject. */
static bool put_odd(Tokens *t, const Odd *odd, const char *name, PyObject *values)
{
    PyObject *found = values ? PyObject_CallFunction(odd->function, "sOO", name, values, odd->encoded_words) : NULL;
    Py_ssize_t n = found && PyList_Check(found) ? PyList_Size(found) : 0, size;
    if (found && !PyList_Check(found))
        PyErr_SetString(PyExc_TypeError, "odd must return a list of str");
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *token = PyUnicode_AsUTF8AndSize(PyList_GetItem(found, i), &size);
        if (!token)
            break;
        token_put(t, "", (const uint8_t *)token, (size_t)size);
    }
    Py_XDECREF(found);
    Py_XDECREF(values);
    return !PyErr_Occurred();
}

static PyObject *values_as_sent(const Values *values, const uint8_t *block, const char *head)
{
    PyObject *list = PyList_New(values->n);
    for (int i = 0; list && i < values->n; i++) {
        Piece value = values->before[i];
        PyObject *bytes = PyBytes_FromStringAndSize(head + (value.at - block), (Py_ssize_t)value.size);
        if (!bytes || PyList_SetItem(list, i, bytes) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static bool put_field(Tokens *t, int number, const Values *values)
{
    Piece value = values->value[0], local, host;
    const uint8_t *p = value.at;
    switch (number) {
    case FROM:
        for (int i = 0; i < values->n; i++)
            put_sender(t, "from:", "from:@", values->value[i], true);
        return true;
    case REPLY_TO:
        for (int i = 0; i < values->n; i++)
            put_sender(t, "reply-to:", "reply-to:@", values->value[i], false);
        return true;
    case SENDER:
        for (int i = 0; i < values->n; i++)
            put_sender(t, "sender:", "sender:@", values->value[i], false);
        return true;
    case TO: put_receivers(t, "to:@", "to:count:", values); return true;
    case CC: put_receivers(t, "cc:@", "cc:count:", values); return true;
    case RECEIVED:
        for (int i = 0; i < values->n; i++)
            put_hops(t, values->value[i]);
        return true;
    case MESSAGE_ID:
        if (next_address(&p, p + at_most(value.size, 500), &local, &host))
            token_put(t, "message-id:@", host.at, host.size);
        return true;
    case CONTENT_TYPE: return put_content(t, value);
    case DATE: put_zone(t, value); return true;
    default: put_words(t, "x-mailer:", value.at, at_most(value.size, 200), 8); return true;
    }
}

/* The tokens of all fields that are read. */
static TokenStatus put_fields(Tokens *t, const Odd *odd, const uint8_t *block, const char *head)
{
    for (int k = 0; k < READ_FIELDS; k++) {
        Values *values = &t->field[k];
        bool plain = true;
        int n = t->n;
        size_t size = t->size;
        memcpy(values->before, values->value, (size_t)values->n * sizeof *values->value);
        for (int i = 0; i < values->n; i++)
            plain = plain && unfold(&values->value[i]);
        if (!values->n || (plain && put_field(t, k, values)))
            continue;
        if (!odd)
            return TOKENS_ELSEWHERE;
        t->n = n;
        t->size = size;
        if (!put_odd(t, odd, token_fields[k].name, values_as_sent(values, block, head)))
            return TOKENS_ERROR;
    }
    return TOKENS_MADE;
}

/* The tokens of a header block and of a subject, whose size is -1 if `odd_subject` isn't ASCII. The block has a
 * lower-case copy of both. */
static TokenStatus put_all(Tokens *t, uint8_t *block, const char *head, size_t head_size, const char *subject,
                           Py_ssize_t subject_size, PyObject *odd_subject, Py_ssize_t most, size_t longest,
                           const Odd *odd)
{
    t->size = 0;
    t->n = t->names = 0;
    t->no_memory = false;
    for (int k = 0; k < READ_FIELDS; k++)
        t->field[k].n = 0;
    lower_copy(block, (const uint8_t *)head, head_size);
    if (subject_size > 0)
        lower_copy(block + head_size, (const uint8_t *)subject, (size_t)subject_size);
    most = most < PY_SSIZE_T_MAX / 4 ? most : PY_SSIZE_T_MAX / 4;
    if (most <= 0 || !take_fields(t, block, block + head_size, most, longest) || (subject_size < 0 && !odd))
        return TOKENS_ELSEWHERE;
    if (subject_size >= 0)
        put_words(t, "subject:", block + head_size, (size_t)subject_size, MOST_TOKENS);
    else if (!put_odd(t, odd, "subject", Py_BuildValue("[O]", odd_subject)))
        return TOKENS_ERROR;
    TokenStatus status = put_fields(t, odd, block, head);
    for (int k = 0; status == TOKENS_MADE && k < t->names; k++)
        token_put(t, "header:", t->name[k].at, at_most(t->name[k].size, 40));
    return status;
}

/* Write the tokens, each after its size as uint16; return the number of bytes. `out` has room for listed_room(t). */
static size_t list_tokens(const Tokens *t, uint8_t *out)
{
    size_t start = 0, written = 0;
    for (int i = 0; i < t->n; start = t->end[i++]) {
        size_t size = at_most(t->end[i] - start, 65535);
        out[written] = (uint8_t)size;
        out[written + 1] = (uint8_t)(size >> 8);
        memcpy(out + written + 2, t->text + start, size);
        written += 2 + size;
    }
    return written;
}

static size_t listed_room(const Tokens *t)
{
    return t->size + 2 * (size_t)t->n + 1;
}

static PyObject *listed_tokens(const Tokens *t)
{
    uint8_t *out = malloc(listed_room(t));
    if (!out)
        return PyErr_NoMemory();
    PyObject *result = PyBytes_FromStringAndSize((const char *)out, (Py_ssize_t)list_tokens(t, out));
    free(out);
    return result;
}

Tokens *tokens_open(void)
{
    Tokens *t = malloc(sizeof *t);
    if (t) {
        t->text = NULL;
        t->room = 0;
    }
    return t;
}

void tokens_close(Tokens *t)
{
    if (t)
        free(t->text);
    free(t);
}

Status put_plain_tokens(Tokens *t, Span head, Span subject, const PlainAttachment *attachments, int n_attachments,
                        Py_ssize_t most, Py_ssize_t longest, Scratch *scratch, Scratch *out, bool *plain)
{
    bool ascii = is_ascii(subject.at, subject.at + subject.size);
    if (reserve(&scratch->at, &scratch->room, (size_t)head.size + (size_t)subject.size + PADDING, 1) != OK)
        return NO_MEMORY;
    *plain = put_all(t, scratch->at, (const char *)head.at, (size_t)head.size, (const char *)subject.at,
                     ascii ? subject.size : -1, NULL, most, (size_t)longest, NULL) == TOKENS_MADE;
    for (const PlainAttachment *one = attachments; *plain && one < attachments + n_attachments; one++) {
        token_put(t, "attachment:", (const uint8_t *)one->type, one->type_size);
        if (one->has_ending)
            token_put(t, "attachment:.", (const uint8_t *)one->ending, one->ending_size);
    }
    if (t->no_memory || reserve(&out->at, &out->room, out->size + listed_room(t), 1) != OK)
        return NO_MEMORY;
    if (*plain)
        out->size += list_tokens(t, out->at + out->size);
    return OK;
}

/* The tokens as a list of str; hashed, as bytes, for a width above 0; listed, as bytes, for a negative one. */
static PyObject *tokens_result(const Tokens *t, Py_ssize_t wanted)
{
    size_t start = 0;
    if (wanted < 0)
        return listed_tokens(t);
    uint32_t width = (uint32_t)wanted;
    PyObject *result = width ? PyBytes_FromStringAndSize(NULL, 4 * (Py_ssize_t)t->n) : PyList_New(t->n);
    char *out = result && width ? PyBytes_AsString(result) : NULL;
    for (int i = 0; result && i < t->n; start = t->end[i++]) {
        if (width) {
            uint32_t h = murmur3(t->text + start, t->end[i] - start), column = column_of(h, width);
            memcpy(out + 4 * i, &column, 4);
            continue;
        }
        PyObject *token = PyUnicode_FromStringAndSize((const char *)t->text + start, (Py_ssize_t)(t->end[i] - start));
        if (!token || PyList_SetItem(result, i, token) < 0)
            Py_CLEAR(result);
    }
    return result;
}

PyDoc_STRVAR(header_tokens_doc,
             "header_tokens(head, subject, attachments, most, longest, encoded_words, odd, width=None, /)\n--\n\n"
             "Return the tokens of a header block with at most `most` fields of `longest` bytes: a list of str, or "
             "for a given width their columns as uint32, equal to those of scikit-learn's HashingVectorizer. For a "
             "field that isn't plain ASCII, `odd(name, values, encoded_words)` returns the list. None for a block "
             "with too many lines, and for attachments whose types or name endings aren't ASCII.");

static PyObject *tokens_of(PyObject *args, bool listed)
{
    PyObject *head, *subject, *attachments, *most_object, *longest_object, *width_object = Py_None, *result = NULL;
    Py_ssize_t head_size, subject_size;
    Odd odd;
    char *head_data;
    if (!PyArg_ParseTuple(args, listed ? "SUOOOOO:listed_header_tokens" : "SUOOOOO|O:header_tokens", &head, &subject,
                          &attachments, &most_object, &longest_object, &odd.encoded_words, &odd.function,
                          &width_object))
        return NULL;
    Py_ssize_t most = PyNumber_AsSsize_t(most_object, NULL), longest,
               width = 0; /* clipped: Python cuts by any number */
    if (most == -1 && PyErr_Occurred())
        return NULL;
    longest = PyNumber_AsSsize_t(longest_object, NULL);
    if (longest == -1 && PyErr_Occurred())
        return NULL;
    if (most < 0 || longest < 0) {
        PyErr_SetString(PyExc_ValueError, "header_tokens: limits must not be negative");
        return NULL;
    }
    if (width_object != Py_None) {
        width = PyNumber_AsSsize_t(width_object, NULL);
        if (width < 1 || width > 0x7fffffff) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "width must be between 1 and 2147483647");
            return NULL;
        }
    }
    if (PyBytes_AsStringAndSize(head, &head_data, &head_size) < 0)
        return NULL;
    const char *subject_data = PyUnicode_AsUTF8AndSize(subject, &subject_size);
    bool plain_subject = subject_data && subject_size == PyUnicode_GetLength(subject);
    if (!subject_data)
        PyErr_Clear(); /* lone surrogates */
    if (!plain_subject)
        subject_size = 0;
    Tokens *t = tokens_open();
    uint8_t *block = PyMem_Malloc((size_t)head_size + (size_t)subject_size + PADDING);
    if (!t || !block) {
        PyErr_NoMemory();
        goto done;
    }
    TokenStatus status = put_all(t, block, head_data, (size_t)head_size, subject_data,
                                 plain_subject ? subject_size : -1, subject, most, (size_t)longest, &odd);
    if (status == TOKENS_MADE && !put_attachments(t, attachments))
        status = TOKENS_ELSEWHERE;
    if (t->no_memory)
        PyErr_NoMemory();
    else if (status != TOKENS_ERROR)
        result = status == TOKENS_MADE ? tokens_result(t, listed ? -1 : width) : Py_NewRef(Py_None);
done:
    PyMem_Free(block);
    tokens_close(t);
    return result;
}

static PyObject *header_tokens(PyObject *module, PyObject *args)
{
    (void)module;
    return tokens_of(args, false);
}

PyDoc_STRVAR(listed_header_tokens_doc,
             "listed_header_tokens(head, subject, attachments, most, longest, encoded_words, odd, /)\n--\n\n"
             "Return the tokens of `header_tokens` as UTF-8, concatenated, each after its size as uint16.");

static PyObject *listed_header_tokens(PyObject *module, PyObject *args)
{
    (void)module;
    return tokens_of(args, true);
}

PyMethodDef header_token_functions[] = {
    {"header_tokens", header_tokens, METH_VARARGS, header_tokens_doc},
    {"listed_header_tokens", listed_header_tokens, METH_VARARGS, listed_header_tokens_doc},
    {NULL, NULL, 0, NULL},
};
