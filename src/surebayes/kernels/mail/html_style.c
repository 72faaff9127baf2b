/* Visibility of HTML text, from colours, sizes and style attributes. */
#include "html.h"

enum { STYLE_LENGTH = 1024 }; /* maximum bytes of a style attribute to read */

static Span span_trim(Span v)
{
    while (v.size && is_html_space(v.at[0])) {
        v.at++;
        v.size--;
    }
    while (v.size && is_html_space(v.at[v.size - 1]))
        v.size--;
    return v;
}

static int span_is(Span v, const char *word)
{
    return (size_t)v.size == strlen(word) && memcmp(v.at, word, (size_t)v.size) == 0;
}

static int span_starts(Span v, const char *word)
{
    size_t n = strlen(word);
    return (size_t)v.size >= n && memcmp(v.at, word, n) == 0;
}

static int named_colour(Span v)
{
    int low = 0, high = HTML_COLOURS;
    while (low < high) {
        int middle = (low + high) / 2;
        const char *name = html_colours[middle].name;
        size_t size = (size_t)v.size, length = strlen(name);
        int order = memcmp(v.at, name, size < length ? size : length);
        if (order == 0 && size == length)
            return html_colours[middle].value;
        if (order < 0 || (order == 0 && size < length))
            high = middle;
        else
            low = middle + 1;
    }
    return COLOUR_UNKNOWN;
}

/* A colour of CSS or of an attribute, in lower case: #rgb, #rrggbb, rrggbb, rgb(r,g,b), a name. */
static int read_colour(Span v)
{
    v = span_trim(v);
    if (span_is(v, "transparent"))
        return COLOUR_UNSEEN;
    if (span_starts(v, "rgb(") || span_starts(v, "rgba(")) {
        int colour = 0, parts = 0;
        const unsigned char *p = v.at + 4, *end = v.at + v.size;
        if (p[-1] != '(')
            p++;
        while (p < end && parts < 3) {
            int n = 0, digits = 0;
            while (p < end && is_html_space(*p))
                p++;
            for (; p < end && is_digit(*p); p++, digits++)
                if (n < 1000)
                    n = n * 10 + *p - '0';
            while (p < end && is_html_space(*p))
                p++;
            if (!digits || p >= end || (*p != ',' && *p != ')'))
                return COLOUR_UNKNOWN;
            colour = colour << 8 | (n > 255 ? 255 : n);
            parts++;
            p++;
        }
        return parts == 3 ? colour : COLOUR_UNKNOWN;
    }
    Py_ssize_t hash = v.size && v.at[0] == '#', digits = v.size - hash;
    if (digits == 6 || (hash && (digits == 3 || digits == 4 || digits == 8))) {
        int colour = 0, wide = digits >= 6, i;
        for (i = 0; i < (wide ? 6 : 3); i++) {
            int d = hex_digit(v.at[hash + i]);
            if (d < 0)
                break;
            colour = wide ? colour << 4 | d : colour << 8 | d << 4 | d;
        }
        if (i == (wide ? 6 : 3))
            return colour;
    }
    return named_colour(v);
}

/* 1: a zero length, 2: a positive one, 3: one relative to the parent's, 0: not a number */
static int length_kind(Span v)
{
    const unsigned char *p = v.at, *end = v.at + v.size;
    int digits = 0, whole = 0, part = 0;
    for (; p < end && is_digit(*p); p++, digits++)
        whole |= *p != '0';
    if (p < end && *p == '.')
        for (p++; p < end && is_digit(*p); p++, digits++)
            part |= *p != '0';
    if (!digits)
        return 0;
    if (!whole && !part)
        return 1;
    Span unit = {p, 0};
    while (p + unit.size < end && (is_letter(p[unit.size]) || p[unit.size] == '%'))
        unit.size++;
    if (span_is(unit, "em") || span_is(unit, "%") || span_is(unit, "ex"))
        return 3;
    return whole ? 2 : span_is(unit, "px") || span_is(unit, "pt") || !unit.size ? 1 : 2;
}

static void apply_font_size(Look *look, Span v)
{
    int length = length_kind(v);
    if (length == 1)
        look->zero = 1;
    else if (length == 2 || (length == 0 && !span_is(v, "inherit")))
        look->zero = 0;
}

/* Copy a style to a buffer: lower case, references resolved, no comments. */
static Py_ssize_t plain_style(Span v, unsigned char *to)
{
    const unsigned char *p = v.at, *end = v.at + (v.size < STYLE_LENGTH ? v.size : STYLE_LENGTH), *stop;
    Py_ssize_t n = 0;
    int comment = 0;
    while (p < end) {
        int second = 0, code = *p == '&' ? reference_at(p, end, 1, &stop, &second) : -1;
        if (code >= 0)
            p = stop;
        else
            code = *p++;
        for (int left = 1 + (second != 0); left; left--, code = second) {
            unsigned char c = code < 128 ? to_lower((unsigned char)code) : '?';
            if (comment) {
                if (c == '/' && comment == 2)
                    comment = 0;
                else
                    comment = c == '*' ? 2 : 1;
            } else if (c == '*' && n && to[n - 1] == '/') {
                n--;
                comment = 1;
            } else
                to[n++] = c;
        }
    }
    return n;
}

static void apply_style(Look *look, Span style, int *displayed)
{
    unsigned char plain[STYLE_LENGTH];
    Span rest = {plain, plain_style(style, plain)};
    int clipped = 0, flat = 0, clear = 0, image = 0, gone = -1;
    while (rest.size) {
        const unsigned char *semicolon = memchr(rest.at, ';', (size_t)rest.size);
        Span one = {rest.at, semicolon ? semicolon - rest.at : rest.size};
        rest.at += one.size + (semicolon != NULL);
        rest.size -= one.size + (semicolon != NULL);
        const unsigned char *colon = one.size ? memchr(one.at, ':', (size_t)one.size) : NULL;
        if (!colon)
            continue;
        Span name = span_trim((Span){one.at, colon - one.at});
        Span value = span_trim((Span){colon + 1, one.at + one.size - colon - 1});
        const unsigned char *bang = value.size ? memchr(value.at, '!', (size_t)value.size) : NULL;
        if (bang)
            value = span_trim((Span){value.at, bang - value.at});
        if (span_is(name, "display"))
            gone = span_is(value, "none");
        else if (span_is(name, "visibility")) {
            if (span_is(value, "hidden") || span_is(value, "collapse"))
                look->unseen = 1;
            else if (span_is(value, "visible"))
                look->unseen = 0;
        } else if (span_is(name, "font-size"))
            apply_font_size(look, value);
        else if (span_is(name, "font")) {
            Span word = value;
            while (word.size && !is_digit(word.at[0]) && word.at[0] != '.') {
                word.at++;
                word.size--;
            }
            if (word.size)
                apply_font_size(look, word);
        } else if (span_is(name, "color"))
            look->letters = read_colour(value);
        else if (span_is(name, "background-color") || span_is(name, "background")) {
            Py_ssize_t n = 0;
            int inside = 0;
            while (n < value.size && (inside || !is_html_space(value.at[n]))) {
                inside = value.at[n] == '(' ? 1 : value.at[n] == ')' ? 0 : inside;
                n++;
            }
            Span first = {value.at, n};
            if (!span_is(first, "none") && !span_is(first, "transparent") && !span_is(first, "inherit"))
                look->paper = n < value.size ? COLOUR_UNKNOWN : read_colour(first);
        } else if (span_is(name, "background-image"))
            image = !span_is(value, "none") && !span_is(value, "inherit") && !span_is(value, "initial");
        else if (span_is(name, "opacity"))
            clear = length_kind(value) == 1;
        else if (span_is(name, "overflow"))
            clipped = span_is(value, "hidden");
        else if (span_is(name, "max-height") || span_is(name, "height") || span_is(name, "max-width") ||
                 span_is(name, "width"))
            flat |= length_kind(value) == 1;
    }
    if (image)
        look->paper = COLOUR_UNKNOWN;
    if (gone == 1 || clear || (clipped && flat))
        look->gone = 1;
    *displayed = gone == 0;
}

static int attribute_colour(Span v)
{
    unsigned char word[32];
    Span copy = {word, 0};
    v = span_trim(v);
    for (; copy.size < v.size && copy.size < 32; copy.size++)
        word[copy.size] = to_lower(v.at[copy.size]);
    return read_colour(copy);
}

void apply_tag(Look *look, const Tag *tag)
{
    int displayed = 0;
    if (tag->id == ID_HEAD)
        return; /* it ends before any visible property */
    if (tag->marked)
        look->paper = COLOUR_UNKNOWN; /* a style sheet may set the background */
    if (tag->paper.at)
        look->paper = attribute_colour(tag->paper);
    if (tag->image.at)
        look->paper = COLOUR_UNKNOWN;
    if (tag->text.at && tag->id == ID_BODY)
        look->letters = attribute_colour(tag->text);
    if (tag->colour.at && tag->id == ID_FONT)
        look->letters = attribute_colour(tag->colour);
    if (tag->size.at && tag->id == ID_FONT)
        look->zero = 0;
    if (tag->href.at && tag->id == ID_A)
        look->letters = COLOUR_UNKNOWN; /* links have a separate colour */
    if (tag->style.at)
        apply_style(look, tag->style, &displayed);
    if ((tag->hidden && !displayed) || tag->what & EL_HIDDEN)
        look->gone = 1;
}
