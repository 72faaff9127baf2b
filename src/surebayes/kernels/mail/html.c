/* HTML to visible text.
 *
 * One pass over UTF-8, following the tokenizer of the HTML standard: tags, attributes, comments, raw text, character
 * references. Instead of a tree, a stack of at most HTML_DEPTH open elements shows whether text is hidden. Each byte is
 * read a bounded number of times. surebayes/mail/html.py is the same in Python; keep them equal.
 */

#include "html.h"

#include "../gil.h"
#include "../utf8.h"
#include "module.h"

enum { HTML_DEPTH = 128 };
enum { HTML_SPACE = 1, HTML_BREAK = 2 }; /* pending output before the next visible character */

typedef struct {
    int what;
    Look before;
} Open;

typedef struct {
    const unsigned char *at, *end;
    unsigned char *out;
    Py_ssize_t size, room;
    int due, flags, shown, depth;
    int sheet; /* whether a style sheet may colour the background */
    Look look;
    int id[HTML_DEPTH]; /* of the open elements, with these properties: */
    Open open[HTML_DEPTH];
    unsigned char count[256]; /* how many are open, by the low byte of the id */
} Scan;

/* classes of bytes: 1 white space, 2 ends a tag's name, 4 ends an attribute's name, 8 special in text */
const unsigned char html_bytes[256] = {
    8, 8, 8, 8, 8, 8, 8, 8, 8, 15, 15, 8, 15, 15,         8,         8,         8,         8,         8,
    8, 8, 8, 8, 8, 8, 8, 8, 8, 8,  8,  8, 8,  [' '] = 15, ['&'] = 8, ['/'] = 6, ['>'] = 6, ['='] = 4, [0xC2] = 8,
};

/* The first 15 bytes of an element's name in lower case, as two numbers: reading eight bytes that were written one by
 * one is slow. */
typedef struct {
    uint64_t first, second;
} Key;

static inline void key_add(Key *key, Py_ssize_t i, unsigned char c)
{
    if (i < 8)
        key->first |= (uint64_t)to_lower(c) << 8 * i;
    else if (i < HTML_NAME - 1)
        key->second |= (uint64_t)to_lower(c) << 8 * (i - 8);
}

/* Elements by a hash of their keys: 1 + the place in html_elements, 0 for none. A binary search takes seven
 * unpredictable branches, a quarter of the time for a page full of tags. */
enum { HTML_SLOTS = 512 };
static uint8_t slots[HTML_SLOTS];
static Key keys[HTML_ELEMENTS];

static inline unsigned slot_of(Key key)
{
    return (unsigned)(((key.first ^ key.second * 31) * UINT64_C(0x9E3779B97F4A7C15)) >> 55);
}

void fill_element_slots(void)
{
    static bool filled; /* once per process */
    for (int k = 0; k < HTML_ELEMENTS && !filled; k++) {
        Key key = {0, 0};
        for (int i = 0; html_elements[k].name[i]; i++)
            key_add(&key, i, (unsigned char)html_elements[k].name[i]);
        unsigned slot = slot_of(key);
        while (slots[slot])
            slot = (slot + 1) % HTML_SLOTS;
        keys[k] = key;
        slots[slot] = (uint8_t)(k + 1);
    }
    filled = true;
}

static void find_element(Span name, Key key, Tag *tag)
{
    for (unsigned slot = slot_of(key); slots[slot]; slot = (slot + 1) % HTML_SLOTS) {
        int k = slots[slot] - 1;
        if (key.first != keys[k].first || key.second != keys[k].second)
            continue;
        tag->what = html_elements[k].what;
        tag->id = html_elements[k].id ? html_elements[k].id : 100 + k;
        return;
    }
    Py_ssize_t n = name.size < HTML_NAME - 1 ? name.size : HTML_NAME - 1;
    while (n && !name.at[n - 1])
        n--;
    unsigned hash = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        hash = (hash * 31 + to_lower(name.at[i])) & 0xFFFFFF;
    tag->what = 0;
    tag->id = 1000 + (int)hash;
}

/* -- output. It hardly exceeds the input: only two references are shorter than their characters, by a fifth, and a
   break or blank is only due after a byte that was not written. It is checked nevertheless. */

static void scan_put(Scan *s, const unsigned char *from, Py_ssize_t size)
{
    if (s->due) {
        if (s->size && s->size < s->room)
            s->out[s->size++] = s->due == HTML_BREAK ? '\n' : ' ';
        s->due = 0;
    }
    if (size > s->room - s->size)
        size = s->room - s->size;
    if (size > 0)
        memcpy(s->out + s->size, from, (size_t)size);
    s->size += size;
}

static void scan_put_code(Scan *s, int code)
{
    uint8_t bytes[4];
    scan_put(s, bytes, (Py_ssize_t)utf8_encode((uint32_t)code, bytes));
}

static void scan_ask(Scan *s, int due)
{
    if (due > s->due)
        s->due = due;
}

/* Write text: white space folded, references resolved unless raw. */
static void scan_write(Scan *s, const unsigned char *p, const unsigned char *end, int raw, int in_attribute)
{
    while (p < end) {
        const unsigned char *run = p;
        for (;;) {
#if defined(__SSE2__)
            while (end - p >= 16) {
                __m128i block = _mm_loadu_si128((const __m128i *)p), blank = _mm_set1_epi8(' ');
                __m128i care = _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('&')),
                                            _mm_cmpeq_epi8(block, _mm_set1_epi8((char)0xC2)));
                care = _mm_or_si128(care, _mm_cmpeq_epi8(_mm_min_epu8(block, blank), block));
                unsigned stops = (unsigned)_mm_movemask_epi8(care),
                         blanks = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, blank));
                stops &= ~(blanks & ~(stops >> 1) & (p > run ? 0x7fffu : 0x7ffeu)); /* one blank between words stays */
                if (stops) {
                    p += lowest_bit(stops);
                    break;
                }
                p += 16;
            }
#endif
            while (p < end && !(html_bytes[*p] & 8))
                p++;
            if (p > run && end - p > 1 && *p == ' ' && !(html_bytes[p[1]] & 8))
                p += 2;
            else
                break;
        }
        if (p > run)
            scan_put(s, run, p - run);
        if (p >= end)
            break;
        if (*p == '&' && !raw) {
            const unsigned char *stop;
            int second, code = reference_at(p, end, in_attribute, &stop, &second);
            if (code < 0)
                scan_put(s, p++, 1);
            else {
                if (code == 0xA0 || (code < 128 && is_html_space((unsigned char)code)))
                    scan_ask(s, HTML_SPACE);
                else
                    scan_put_code(s, code);
                if (second)
                    scan_put_code(s, second);
                p = stop;
            }
        } else if (*p == 0xC2 && end - p > 1 && p[1] == 0xA0) {
            scan_ask(s, HTML_SPACE);
            p += 2;
        } else if (is_html_space(*p)) {
            scan_ask(s, HTML_SPACE);
            p++;
        } else if (*p == 0)
            p++;
        else
            scan_put(s, p++, 1);
    }
}

static void scan_judge(Scan *s)
{
    const Look *k = &s->look;
    int same = k->letters == COLOUR_UNSEEN, paper = k->paper == COLOUR_PAGE && !s->sheet ? 0xFFFFFF : k->paper;
    if (k->letters >= 0 && paper >= 0) {
        same = 1;
        for (int shift = 0; shift < 24; shift += 8) {
            int d = (k->letters >> shift & 255) - (paper >> shift & 255);
            if (d > 15 || d < -15)
                same = 0;
        }
    }
    s->shown = s->flags & HTML_KEEP_HIDDEN || !(k->gone || k->unseen || k->zero || same);
}

static void scan_boundary(Scan *s, int what)
{
    if (what & (EL_BLOCK | EL_BREAK))
        scan_ask(s, HTML_BREAK);
    else if (what & EL_CELL)
        scan_ask(s, HTML_SPACE);
}

/* -- the stack of open elements */

/* Close the open elements from a place on. */
static void scan_close_from(Scan *s, int place)
{
    s->look = s->open[place].before;
    while (s->depth > place)
        s->count[s->id[--s->depth] & 255]--;
    scan_judge(s);
}

/* Close the topmost open element of that name, unless a table, a template or a `wall` is in between. */
static void scan_close(Scan *s, int id, int wall)
{
    if (!s->count[id & 255])
        return;
    for (int i = s->depth - 1; i >= 0; i--) {
        if (s->id[i] == id) {
            scan_close_from(s, i);
            return;
        }
        if (id == ID_TEMPLATE) /* its end tag closes everything left open inside */
            continue;
        if (s->id[i] == ID_TABLE || s->id[i] == ID_TEMPLATE || s->open[i].what & (wall | EL_INTEGRATION))
            return;
    }
}

static inline int top_is(const Scan *s, int what)
{
    return s->depth && s->open[s->depth - 1].what & what;
}

/* Leave SVG and MathML at a tag of HTML. */
static void scan_break_out(Scan *s)
{
    while (top_is(s, EL_FOREIGN) && !top_is(s, EL_INTEGRATION))
        scan_close_from(s, s->depth - 1);
}

/* Close an element of SVG or MathML; 0 if its name isn't open there. */
static int scan_end_foreign(Scan *s, const Tag *tag)
{
    if (s->count[tag->id & 255])
        for (int i = s->depth - 1; i >= 0 && s->open[i].what & EL_FOREIGN; i--)
            if (s->id[i] == tag->id) {
                scan_close_from(s, i);
                return 1;
            }
    return 0;
}

/* Close the elements that a start tag implicitly closes. */
static void scan_close_implied(Scan *s, const Tag *tag)
{
    int id = tag->id, row = id == ID_TR,
        section = id == ID_TBODY || id == ID_THEAD || id == ID_TFOOT || id == ID_CAPTION;
    if (tag->what & EL_BLOCK)
        scan_close(s, ID_P, EL_TABLE);
    if (id == ID_LI)
        scan_close(s, ID_LI, EL_TABLE | EL_LIST);
    else if (id == ID_DT || id == ID_DD) {
        scan_close(s, ID_DT, EL_TABLE | EL_LIST);
        scan_close(s, ID_DD, EL_TABLE | EL_LIST);
    } else if (id == ID_OPTION)
        scan_close(s, ID_OPTION, EL_TABLE | EL_BLOCK);
    if (section) {
        scan_close(s, ID_CAPTION, 0);
        scan_close(s, ID_TBODY, 0);
        scan_close(s, ID_THEAD, 0);
        scan_close(s, ID_TFOOT, 0);
    }
    if (section || row)
        scan_close(s, ID_TR, 0);
    if (section || row || id == ID_TD || id == ID_TH) {
        scan_close(s, ID_TD, 0);
        scan_close(s, ID_TH, 0);
    }
}

/* Open an element, whose look applies to the following text. */
static void scan_start(Scan *s, const Tag *tag)
{
    Look before = s->look;
    apply_tag(&s->look, tag);
    if (!(tag->what & (EL_PAGE | EL_VOID))) {
        if (s->depth < HTML_DEPTH) {
            s->id[s->depth] = tag->id;
            s->count[tag->id & 255]++;
            s->open[s->depth++] = (Open){tag->what, before};
        } else
            s->look = before; /* too deep to track its end */
    }
    scan_judge(s);
}

/* Whether a start tag belongs to HTML, or to SVG and MathML, where names differ and "/>" ends an element. */
static void scan_place(Scan *s, Tag *tag)
{
    int inside = top_is(s, EL_FOREIGN) && !top_is(s, EL_INTEGRATION);
    if (inside && (tag->what & EL_BREAKOUT || (tag->id == ID_FONT && (tag->colour.at || tag->size.at || tag->face)))) {
        scan_break_out(s);
        inside = 0;
    }
    if (inside || tag->id == ID_SVG || tag->id == ID_MATH)
        tag->what = EL_FOREIGN | (tag->what & EL_INTEGRATION) | (tag->what & EL_UNDRAWN ? EL_HIDDEN : 0) |
                    (tag->closed ? EL_VOID : 0);
    else
        tag->what &= ~EL_INTEGRATION;
}

static void scan_end(Scan *s, Tag *tag)
{
    if (top_is(s, EL_FOREIGN)) {
        if (scan_end_foreign(s, tag))
            return;
        if (tag->id == ID_P || tag->id == ID_BR)
            scan_break_out(s);
    }
    scan_boundary(s, tag->what);
    if (tag->what & EL_TABLE)
        scan_close(s, tag->id, 0);
    else
        scan_close(s, tag->id, tag->what & (EL_BLOCK | EL_FORMAT) ? EL_TABLE : EL_TABLE | EL_BLOCK);
}

/* -- tags */

static inline int is_name(Span name, const char *word, Py_ssize_t size)
{
    if (name.size != size)
        return 0;
    for (Py_ssize_t i = 0; i < size; i++)
        if (to_lower(name.at[i]) != (unsigned char)word[i])
            return 0;
    return 1;
}

static void keep_attribute(Tag *tag, Span name, Span value)
{
    Span *to = NULL;
    switch (name.at[0] | 32) {
    case 's':
        to = is_name(name, "style", 5)  ? &tag->style
             : is_name(name, "size", 4) ? &tag->size
             : is_name(name, "src", 3)  ? &tag->src
                                        : NULL;
        break;
    case 'c':
        to = is_name(name, "color", 5) ? &tag->colour : NULL;
        tag->marked |= is_name(name, "class", 5);
        break;
    case 'f': tag->face |= is_name(name, "face", 4); break;
    case 'i': tag->marked |= is_name(name, "id", 2); break;
    case 'r': to = is_name(name, "rel", 3) ? &tag->rel : NULL; break;
    case 'b':
        to = is_name(name, "bgcolor", 7) ? &tag->paper : is_name(name, "background", 10) ? &tag->image : NULL;
        break;
    case 't': to = is_name(name, "text", 4) ? &tag->text : NULL; break;
    case 'a': to = is_name(name, "alt", 3) ? &tag->alt : NULL; break;
    case 'h':
        if (is_name(name, "href", 4))
            to = &tag->href;
        else if (is_name(name, "hidden", 6))
            tag->hidden = 1;
        break;
    }
    if (to && !to->at)
        *to = value; /* the first attribute of a name counts */
}

/* Read attributes up to the end of the tag; 0 if there is no end. */
static int scan_attributes(Scan *s, Tag *tag)
{
    const unsigned char *p = s->at, *end = s->end;
    for (;;) {
        int slash = 0;
        for (; p < end && (is_html_space(*p) || *p == '/'); p++)
            slash = *p == '/';
        if (p >= end)
            break;
        if (*p == '>') {
            tag->closed = slash;
            s->at = p + 1;
            return 1;
        }
        Span name = {p, 0}, value = {(const unsigned char *)"", 0};
        p++; /* an equals sign here is part of the name */
        while (p < end && !(html_bytes[*p] & 4))
            p++;
        name.size = p - name.at;
        while (p < end && is_html_space(*p))
            p++;
        if (p < end && *p == '=') {
            p++;
            while (p < end && is_html_space(*p))
                p++;
            if (p < end && (*p == '"' || *p == '\'')) {
                const unsigned char *close = memchr(p + 1, *p, (size_t)(end - p - 1));
                if (!close)
                    break;
                value = (Span){p + 1, close - p - 1};
                p = close + 1;
            } else {
                value.at = p;
                while (p < end && !is_html_space(*p) && *p != '>')
                    p++;
                value.size = p - value.at;
            }
        }
        keep_attribute(tag, name, value);
    }
    s->at = end;
    return 0;
}

static const unsigned char *find_end_tag(Scan *s, Span name)
{
    const unsigned char *p = s->at;
    while (s->end - p >= name.size + 2 && (p = memchr(p, '<', (size_t)(s->end - p - name.size - 1)))) {
        if (p[1] == '/') {
            Py_ssize_t i = 0;
            while (i < name.size && to_lower(p[2 + i]) == to_lower(name.at[i]))
                i++;
            const unsigned char *after = p + 2 + name.size;
            if (i == name.size && (after == s->end || is_html_space(*after) || *after == '/' || *after == '>'))
                return p;
        }
        p++;
    }
    return s->end;
}

/* Whether the word at p, in any case, is a complete tag name. */
static int is_tag_at(const unsigned char *p, const unsigned char *end, const char *word, Py_ssize_t size)
{
    if (end - p < size || !is_name((Span){p, size}, word, size))
        return 0;
    return p + size == end || html_bytes[p[size]] & 2;
}

/* The end of a script: inside <!--, a <script> hides the next </script>. */
static const unsigned char *find_script_end(Scan *s)
{
    enum { PLAIN, ESCAPED, TWICE } state = PLAIN;
    const unsigned char *p = s->at, *end = s->end,
                        *hyphens = p; /* "-->" ends the state if its hyphens are not before this */
    for (; p < end; p++) {
        if (*p == '>' && state != PLAIN && p - hyphens >= 2 && p[-1] == '-' && p[-2] == '-')
            state = PLAIN;
        if (*p != '<')
            continue;
        if (end - p > 3 && p[1] == '!' && p[2] == '-' && p[3] == '-') {
            if (state == PLAIN) {
                state = ESCAPED;
                hyphens = p + 2;
            }
            p += 3;
        } else if (end - p > 1 && p[1] == '/' && is_tag_at(p + 2, end, "script", 6)) {
            if (state != TWICE)
                return p;
            if (end - p > 8)
                state = ESCAPED;
        } else if (state == ESCAPED && is_tag_at(p + 1, end, "script", 6) && end - p > 7)
            state = TWICE;
    }
    return end;
}

/* Whether a word in lower case is in a span. */
static int mentions(const unsigned char *p, const unsigned char *end, const char *word)
{
    Py_ssize_t size = (Py_ssize_t)strlen(word);
    for (; end - p >= size; p++)
        if ((*p | 32) == word[0] && is_name((Span){p, size}, word, size))
            return 1;
    return 0;
}

static void scan_write_attribute(Scan *s, Span value)
{
    if (!value.at || !s->shown)
        return;
    scan_ask(s, HTML_SPACE);
    scan_write(s, value.at, value.at + value.size, 0, 1);
    scan_ask(s, HTML_SPACE);
}

/* The content of an element without tags. */
static void scan_raw(Scan *s, const Tag *tag, Span name)
{
    const unsigned char *start = s->at, *stop = s->end;
    if (tag->id == ID_SCRIPT)
        stop = find_script_end(s);
    else if (tag->id != ID_PLAINTEXT)
        stop = find_end_tag(s, name);
    s->at = stop;
    if (!(tag->what & EL_RAW) && s->shown)
        scan_write(s, start, stop, tag->what & EL_SHOWN_RAW, 0);
    if (tag->id == ID_STYLE && !s->sheet && mentions(start, stop, "background")) {
        s->sheet = 1;
        scan_judge(s);
    }
}

static void scan_tag(Scan *s)
{
    int closing = s->at[1] == '/';
    Tag tag;
    tag.style.at = tag.colour.at = tag.paper.at = tag.text.at = tag.image.at = tag.size.at = NULL; /* memset is slow */
    tag.alt.at = tag.href.at = tag.src.at = tag.rel.at = NULL;
    tag.hidden = tag.marked = tag.closed = tag.face = 0;
    Span name = {s->at + 1 + closing, 0};
    Key key = {0, 0};
    while (name.at + name.size < s->end && !(html_bytes[name.at[name.size]] & 2)) {
        key_add(&key, name.size, name.at[name.size]);
        name.size++;
    }
    s->at = name.at + name.size;
    find_element(name, key, &tag);
    if (!scan_attributes(s, &tag))
        return;
    if (closing) {
        scan_end(s, &tag);
        return;
    }
    scan_place(s, &tag);
    scan_boundary(s, tag.what);
    if (!(tag.what & EL_FOREIGN))
        scan_close_implied(s, &tag);
    tag.marked = tag.marked && s->sheet;
    Look before = s->look;
    scan_start(s, &tag);
    if (s->flags & HTML_ALT_TEXT)
        scan_write_attribute(s, tag.alt);
    if (s->flags & HTML_LINK_TARGETS) {
        scan_write_attribute(s, tag.href);
        scan_write_attribute(s, tag.src);
    }
    if (tag.what & EL_VOID) { /* a void element's look ends with it */
        s->look = before;
        if (tag.id == ID_LINK && tag.rel.at && mentions(tag.rel.at, tag.rel.at + tag.rel.size, "stylesheet"))
            s->sheet = 1;
        scan_judge(s);
    }
    if (tag.what & (EL_RAW | EL_SHOWN_RAW | EL_RCDATA))
        scan_raw(s, &tag, name);
}

/* -- everything else that starts with < */

static void skip_to_bracket(Scan *s)
{
    const unsigned char *p = memchr(s->at, '>', (size_t)(s->end - s->at));
    s->at = p ? p + 1 : s->end;
}

static void skip_comment(Scan *s)
{
    const unsigned char *p = s->at + 4, *end = s->end;
    if (p < end && *p == '>') {
        s->at = p + 1;
        return;
    }
    if (end - p > 1 && p[0] == '-' && p[1] == '>') {
        s->at = p + 2;
        return;
    }
    while (end - p > 2 && (p = memchr(p, '-', (size_t)(end - p - 2)))) {
        if (p[1] == '-' && p[2] == '>') {
            s->at = p + 3;
            return;
        }
        if (p[1] == '-' && p[2] == '!' && end - p > 3 && p[3] == '>') {
            s->at = p + 4;
            return;
        }
        p++;
    }
    s->at = end;
}

/* Raw text in SVG or MathML. */
static void scan_cdata(Scan *s)
{
    const unsigned char *start = s->at + 9, *stop = start, *end = s->end;
    while (stop < end && (stop = memchr(stop, ']', (size_t)(end - stop))) &&
           !(end - stop > 2 && stop[1] == ']' && stop[2] == '>'))
        stop++;
    s->at = stop && end - stop > 2 ? stop + 3 : end;
    if (s->shown)
        scan_write(s, start, stop && end - stop > 2 ? stop : end, 1, 0);
}

static void scan_run(Scan *s)
{
    scan_judge(s);
    while (s->at < s->end) {
        const unsigned char *p = memchr(s->at, '<', (size_t)(s->end - s->at));
        if (!p)
            p = s->end;
        if (s->shown && p > s->at)
            scan_write(s, s->at, p, 0, 0);
        s->at = p;
        if (p == s->end)
            break;
        unsigned char next = s->end - p > 1 ? p[1] : 0, third = s->end - p > 2 ? p[2] : 0;
        if (is_letter(next) || (next == '/' && is_letter(third)))
            scan_tag(s);
        else if (next == '!' && s->end - p > 3 && p[2] == '-' && p[3] == '-')
            skip_comment(s);
        else if (next == '!' && top_is(s, EL_FOREIGN) && s->end - p > 8 && !memcmp(p, "<![CDATA[", 9))
            scan_cdata(s);
        else if (next == '!' || next == '?' || (next == '/' && s->end - p > 2))
            skip_to_bracket(s);
        else {
            if (s->shown)
                scan_put(s, p, 1);
            s->at = p + 1;
        }
    }
}

/* Write the visible text of HTML in UTF-8 to `out`, which has room for HTML_ROOM(size); return its size, -1 without
 * memory. */
Py_ssize_t html_visible(const unsigned char *data, Py_ssize_t size, int flags, unsigned char *out)
{
    Scan *s = malloc(sizeof *s);
    if (!s)
        return -1;
    s->at = data;
    s->end = data + size;
    s->out = out;
    s->size = 0;
    s->room = HTML_ROOM(size);
    s->due = s->depth = s->sheet = 0;
    s->flags = flags;
    s->look = (Look){.letters = COLOUR_UNKNOWN, .paper = COLOUR_PAGE};
    memset(s->count, 0, sizeof s->count);
    scan_run(s);
    size = s->size;
    free(s);
    return size;
}

PyDoc_STRVAR(html_text_doc,
             "html_text(html, flags=0, /)\n--\n\n"
             "The visible text of HTML. Flags: 1 keeps hidden text, 2 adds alt texts, 4 adds link targets.");

static PyObject *html_text(PyObject *module, PyObject *args)
{
    PyObject *html, *text = NULL;
    Py_ssize_t size;
    int flags = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "U|i:html_text", &html, &flags))
        return NULL;
    const char *data = PyUnicode_AsUTF8AndSize(html, &size);
    if (!data)
        return NULL;
    unsigned char *out = PyMem_Malloc((size_t)HTML_ROOM(size));
    PyThreadState *thread = out && size > LONG_HTML ? PyEval_SaveThread() : NULL;
    size = out ? html_visible((const unsigned char *)data, size, flags, out) : -1;
    restore_gil(thread);
    if (size < 0)
        PyErr_NoMemory();
    else
        text = PyUnicode_DecodeUTF8((const char *)out, size, "replace");
    PyMem_Free(out);
    return text;
}

PyMethodDef html_functions[] = {
    {"html_text", html_text, METH_VARARGS, html_text_doc},
    {NULL, NULL, 0, NULL},
};
