/* The scratch memory of a call, and the distinct tokens of the current document. */
#ifndef SUREBAYES_TEXT_WORKSPACE_H
#define SUREBAYES_TEXT_WORKSPACE_H

#include "vocabulary.h"

typedef enum { WORDS, CHARS, CHARS_IN_WORDS, BYTES } Kind;

typedef struct {
    PyObject_HEAD Kind kind;
    size_t low, high; /* n-gram sizes */
    size_t shortest;  /* minimum characters of a word: 1 or 2 */
    size_t max_bytes; /* of a document, for BYTES */
    bool lowercase;
    bool has_stop_words;
    Table stop_words;
} Analyzer;

/* Slots for the tokens of an ordinary document: with 16 KB they stay in the cache. Kept three quarters empty (a tenth
 * faster than half empty: fewer probes to mispredict). */
enum { FEW = 2048, AHEAD = 12 };

typedef struct {
    PyObject *owner; /* keeps the text alive */
    const uint8_t *text;
    size_t size;
    bool lower; /* still to be lower-cased by the kernel */
} Document;

typedef struct {
    uint32_t start, end;
} Span;

/* A slot of the hash table of distinct tokens: `place` is 1 + the token's index in ws->tokens, or 0 if the slot is
 * empty; `tag` is the low half of the token's hash. */
typedef struct {
    uint32_t tag, place;
} Seen;

typedef struct {
    double rank;
    uint32_t column;
} Candidate;

/* The scratch memory of one call: reused by later calls, so that judging one document allocates almost nothing. */
struct Workspace {
    Workspace *next;
    State *state;
    /* the task of this call */
    const Analyzer *analyzer;
    Table *table;                        /* NULL: hash */
    bool grow, alternate_sign, presence; /* presence: a row is the document's distinct columns, ascending */
    uint32_t columns;                    /* of the hash */
    /* the document */
    uint8_t *text, *joined;
    uint64_t *mask;
    uint32_t *edges, *starts;
    Span *spans;
    size_t text_room, joined_room, mask_room, edges_room, spans_room, starts_room;
    bool ascii;               /* whether the document is ASCII only */
    const Page *pages[PAGES]; /* the workspace's own view, filled under the GIL: no data races */
    uint32_t *unknown;        /* unknown characters, each once: marked by a bit of `recorded` */
    size_t unknown_used, unknown_room;
    uint8_t *recorded;
    /* the distinct tokens of the document, and a hash table of them */
    Token *tokens;
    Seen *seen;
    size_t distinct, tokens_room, seen_slots, seen_room;
    int seen_shift;
    /* finished rows, then the current one */
    uint32_t *ids;
    int32_t *counts;
    size_t used, row, ids_room, counts_room;
    /* the position of a column in the current row, only for hashing: two tokens may share a column */
    uint32_t *places;
    size_t places_room;
    /* the columns of the document in order of appearance, for presence, and room for sorting */
    uint32_t *found, *spare;
    size_t found_used, found_room, spare_room;
    /* the best terms of a row, if only some are scored */
    Candidate *heap;
    size_t heap_room;
};

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

void workspace_free(Workspace *ws);
Workspace *workspace_take(State *state);
void workspace_give_back(Workspace *ws);

/* Begin a document, with a small table again, which stays in the cache. */
Status document_begin(Workspace *ws);

/* Grow the tables of the document's distinct tokens. */
Status seen_grow(Workspace *ws);

/* Append the row of the document: ids of its tokens in the vocabulary, which may add unknown ones. */
Status look_up(Workspace *ws);

/* Append the row of the document: the hashed columns of its tokens. */
Status hash_columns(Workspace *ws);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

static inline bool same_token(const Token *a, const Token *b)
{
    return a->head == b->head && a->tail == b->tail && a->is_long == b->is_long &&
           (!a->is_long || (a->size == b->size && memcmp(a->text, b->text, a->size) == 0));
}

/* Count one token of at least one byte, with PADDING readable bytes after it. */
static inline Status put(Workspace *ws, const uint8_t *text, size_t size)
{
    Token token = token_of(text, size);
    for (size_t slot = (size_t)(token.hash >> ws->seen_shift);; slot = (slot + 1) & (ws->seen_slots - 1)) {
        Seen *seen = &ws->seen[slot];
        if (!seen->place) {
            *seen = (Seen){(uint32_t)token.hash, (uint32_t)ws->distinct + 1};
            ws->tokens[ws->distinct++] = token;
            return ws->distinct * 4 > ws->seen_slots ? seen_grow(ws) : OK;
        }
        if (seen->tag == (uint32_t)token.hash && LIKELY(same_token(&ws->tokens[seen->place - 1], &token))) {
            ws->tokens[seen->place - 1].count++;
            return OK;
        }
    }
}

#endif
