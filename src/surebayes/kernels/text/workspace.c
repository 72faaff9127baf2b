/* The scratch memory of a call: its arrays, the tokens of the current document, and the finished rows. */
#include "workspace.h"

void workspace_free(Workspace *ws)
{
    free(ws->text), free(ws->joined), free(ws->mask), free(ws->edges), free(ws->spans), free(ws->starts);
    free(ws->tokens), free(ws->seen), free(ws->ids), free(ws->counts), free(ws->places), free(ws->heap);
    free(ws->found), free(ws->spare), free(ws->unknown), free(ws->recorded);
    free(ws);
}

Workspace *workspace_take(State *state)
{
    Workspace *ws = state->idle;
    if (ws)
        state->idle = ws->next;
    else if (!(ws = calloc(1, sizeof *ws))) {
        PyErr_NoMemory();
        return NULL;
    }
    ws->state = state;
    ws->used = ws->row = 0;
    ws->presence = false;
    return ws;
}

void workspace_give_back(Workspace *ws)
{
    /* a workspace that has processed a huge document is freed */
    if (ws->text_room > (1u << 22) || ws->ids_room > (1u << 20) || ws->tokens_room > (1u << 18) ||
        ws->unknown_room > (1u << 16)) {
        workspace_free(ws);
        return;
    }
    ws->next = ws->state->idle;
    ws->state->idle = ws;
}

static void seen_clear(Workspace *ws, size_t slots)
{
    memset(ws->seen, 0, slots * sizeof *ws->seen);
    ws->seen_slots = slots;
    ws->seen_shift = 64;
    for (size_t s = slots; s > 1; s >>= 1)
        ws->seen_shift--;
}

/* Begin a document, with a small table again, which stays in the cache. */
Status document_begin(Workspace *ws)
{
    if (reserve(&ws->seen, &ws->seen_room, FEW, sizeof *ws->seen) != OK ||
        reserve(&ws->tokens, &ws->tokens_room, FEW / 4 + 1, sizeof *ws->tokens) != OK)
        return NO_MEMORY;
    seen_clear(ws, FEW);
    ws->distinct = 0;
    ws->row = ws->used;
    return OK;
}

/* Grow the tables of the document's distinct tokens. */
Status seen_grow(Workspace *ws)
{
    size_t slots = ws->seen_slots * 2;
    if (reserve(&ws->seen, &ws->seen_room, slots, sizeof *ws->seen) != OK ||
        reserve(&ws->tokens, &ws->tokens_room, slots / 4 + 1, sizeof *ws->tokens) != OK)
        return NO_MEMORY;
    seen_clear(ws, slots);
    for (size_t i = 0; i < ws->distinct; i++) {
        size_t slot = (size_t)(ws->tokens[i].hash >> ws->seen_shift);
        while (ws->seen[slot].place)
            slot = (slot + 1) & (slots - 1);
        ws->seen[slot] = (Seen){(uint32_t)ws->tokens[i].hash, (uint32_t)i + 1};
    }
    return OK;
}

/* Make room for the row of the document (and one entry more: never a null pointer). */
static Status row_room(Workspace *ws)
{
    size_t need = ws->used + ws->distinct + 1;
    Status status = reserve(&ws->ids, &ws->ids_room, need, sizeof *ws->ids);
    return status == OK ? reserve(&ws->counts, &ws->counts_room, need, sizeof *ws->counts) : status;
}

/* Append the row of the document: ids of its tokens in the vocabulary, which may add unknown ones. */
Status look_up(Workspace *ws)
{
    Table *table = ws->table;
    if (row_room(ws) != OK)
        return NO_MEMORY;
    for (size_t i = 0; i < ws->distinct; i++) {
        if (i + AHEAD < ws->distinct)
            PREFETCH(&table->entries[ws->tokens[i + AHEAD].hash >> table->shift]);
        const Token *token = &ws->tokens[i];
        Entry *e = table_find(table, token);
        uint32_t id = e->id & ~LONG;
        if (!e->head && !e->tail) {
            if (!ws->grow)
                continue;
            id = (uint32_t)table->terms;
            Status status = table_insert(table, e, token);
            if (status != OK)
                return status;
        }
        ws->ids[ws->used] = id;
        ws->counts[ws->used++] = token->count;
    }
    return OK;
}

/* Append the row of the document: the hashed columns of its tokens. */
Status hash_columns(Workspace *ws)
{
    size_t slots = ws->seen_slots;
    if (row_room(ws) != OK || reserve(&ws->places, &ws->places_room, slots, sizeof *ws->places) != OK)
        return NO_MEMORY;
    memset(ws->places, 0, slots * sizeof *ws->places);
    for (size_t i = 0; i < ws->distinct; i++) {
        const Token *token = &ws->tokens[i];
        uint32_t h = murmur3(token->text, token->size), column = column_of(h, ws->columns);
        int32_t value = ws->alternate_sign && h >> 31 ? -token->count : token->count;
        size_t slot = (size_t)(column * UINT64_C(0x9E3779B97F4A7C15) >> ws->seen_shift);
        while (ws->places[slot] && ws->ids[ws->row + ws->places[slot] - 1] != column)
            slot = (slot + 1) & (slots - 1);
        if (ws->places[slot])
            ws->counts[ws->row + ws->places[slot] - 1] += value;
        else {
            ws->places[slot] = (uint32_t)(ws->used - ws->row) + 1;
            ws->ids[ws->used] = column;
            ws->counts[ws->used++] = value;
        }
    }
    return OK;
}
