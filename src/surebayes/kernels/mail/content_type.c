/* Parsing of plain Content-Type and Content-Disposition fields; all other forms are left to headers.py. */
#include "content_type.h"

PartType part_type(const char *name, Py_ssize_t size)
{
    if (size >= 5 && !memcmp(name, "text/", 5))
        return size == 9 && !memcmp(name, "text/html", 9) ? PART_HTML : PART_TEXT;
    if (size >= 10 && !memcmp(name, "multipart/", 10))
        return size == 16 && !memcmp(name, "multipart/digest", 16) ? PART_DIGEST : PART_MULTIPART;
    if ((size == 14 && (!memcmp(name, "message/rfc822", 14) || !memcmp(name, "message/global", 14))) ||
        (size == 12 && !memcmp(name, "message/news", 12)))
        return PART_MESSAGE;
    return PART_OTHER;
}

static const unsigned char *after_blanks(const unsigned char *p, const unsigned char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

/* Copy in lower case; false if it is too long. */
static bool lower_name(const unsigned char *p, const unsigned char *end, char *out)
{
    if (end - p > LONGEST_NAME)
        return false;
    while (p < end)
        *out++ = (char)to_lower(*p++);
    return true;
}

static bool is_printable(Span text)
{
    for (Py_ssize_t i = 0; i < text.size; i++)
        if (text.at[i] < ' ' || text.at[i] > '~')
            return false;
    return true;
}

/* Read the type; false if it isn't in plain form. */
static bool read_type(Span value, ContentType *kind)
{
    const unsigned char *p = value.at, *end = p + value.size, *stop = p, *blank;
    int slashes = 0;
    while (stop < end && *stop != ';' && *stop != '(')
        stop++;
    p = after_blanks(p, stop);
    while (stop > p && is_blank(stop[-1]))
        stop--;
    for (blank = p; blank < stop && !is_blank(*blank);)
        blank++;
    if (blank < stop && (memchr(p, ' ', (size_t)(stop - p)) || memchr(p, '\t', (size_t)(stop - p))))
        stop = blank; /* a missing semicolon */
    for (const unsigned char *q = p; q < stop; q++)
        slashes += *q == '/';
    Span name = {p, stop - p};
    if (slashes != 1)
        name = (Span){(const unsigned char *)"text/plain", 10}; /* RFC 2045, 5.2 */
    if (!lower_name(name.at, name.at + name.size, kind->name))
        return false;
    kind->name_size = (size_t)name.size;
    kind->type = part_type(kind->name, name.size);
    return true;
}

/* Find a parameter; false if it isn't in plain form. `found->at` is NULL if there is none. */
static bool plain_parameter(Span value, const char *name, Span *found)
{
    const unsigned char *start = value.at, *end = value.at + value.size, *p = start;
    Py_ssize_t size = (Py_ssize_t)strlen(name), i;
    *found = (Span){NULL, 0};
    for (;; p++) {
        if (end - p < size)
            return true;
        for (i = 0; i < size && to_lower(p[i]) == (unsigned char)name[i];)
            i++;
        if (i == size)
            break;
    }
    if (p == start || (p[-1] != ';' && p[-1] != ' ' && p[-1] != '\t' && p[-1] != '\n') ||
        memchr(start, '\\', (size_t)value.size))
        return false;
    p = after_blanks(p + size, end);
    if (p == end || *p != '=')
        return false;
    p = after_blanks(p + 1, end);
    found->at = p;
    if (p < end && *p == '"') {
        found->at = ++p;
        p = memchr(p, '"', (size_t)(end - p));
        if (!p)
            return false;
    } else
        while (p < end && *p != ';' && *p != ' ' && *p != '\t' && *p != '\r' && *p != '\n')
            p++;
    found->size = p - found->at;
    return true;
}

/* The character set for a label; SET_OTHER if codec_name must be called. */
static MailSet set_of(Span label)
{
    static const struct {
        const char *label;
        MailSet set;
    } known[] = {
        {"utf-8", SET_UTF_8},
        {"us-ascii", SET_WINDOWS},
        {"iso-8859-1", SET_WINDOWS},
        {"windows-1252", SET_WINDOWS},
        {"iso-8859-15", SET_WITH_ASCII},
        {"iso-8859-2", SET_WITH_ASCII},
        {"windows-1250", SET_WITH_ASCII},
        {"windows-1251", SET_WITH_ASCII},
    };
    char name[LONGEST_NAME];
    if (!label.at)
        return SET_UNDECLARED;
    if (!lower_name(label.at, label.at + label.size, name))
        return SET_OTHER;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if ((size_t)label.size == strlen(known[k].label) && !memcmp(name, known[k].label, (size_t)label.size))
            return known[k].set;
    return SET_OTHER;
}

bool plain_content_type(Span value, ContentType *kind)
{
    Span label;
    kind->boundary = (Span){(const unsigned char *)"", 0};
    if (!read_type(value, kind) || !plain_parameter(value, "charset", &label) ||
        (kind->set = set_of(label)) == SET_OTHER)
        return false;
    if (kind->type != PART_MULTIPART && kind->type != PART_DIGEST)
        return true;
    if (!plain_parameter(value, "boundary", &label))
        return false;
    if (label.at)
        kind->boundary = label;
    while (kind->boundary.size && is_blank(kind->boundary.at[kind->boundary.size - 1]))
        kind->boundary.size--;
    return true;
}

bool plain_filename(Span disposition, Span type, Span *name)
{
    const Span values[] = {disposition, type};
    static const char *const keys[] = {"filename", "name"};
    *name = (Span){NULL, 0};
    for (int i = 0; i < 4 && !name->size; i++) /* an empty name counts as missing */
        if (values[i / 2].at && !plain_parameter(values[i / 2], keys[i % 2], name))
            return false;
    while (name->size && name->at[name->size - 1] == ' ')
        name->size--;
    for (Py_ssize_t i = 1; i < name->size; i++)
        if (name->at[i - 1] == '=' && name->at[i] == '?')
            return false; /* there may be encoded words */
    return is_printable(*name);
}
