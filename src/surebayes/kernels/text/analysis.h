/* Analysis of a document: lower case and class masks, tokens, and a row of counts or columns. */
#ifndef SUREBAYES_TEXT_ANALYSIS_H
#define SUREBAYES_TEXT_ANALYSIS_H

#include "workspace.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Append one document as a row to ws->ids and ws->counts. */
Status count_document(Workspace *ws, const Document *document);

/* Store the starts and ends of runs of set bits in ws->mask (of clear ones if `inverted`) in ws->edges. `skip_bytes`
 * leaves out runs of one byte. */
Status find_runs(Workspace *ws, size_t n, bool inverted, bool skip_bytes, size_t *count);

/* Join the words, without stop words, by single spaces in ws->joined, so that every n-gram is one span. */
Status join_words(Workspace *ws, size_t n, size_t *count);

/* -- presence: the distinct columns of a document, ascending */

Status found_room(Workspace *ws, size_t more);
Status find_byte_columns(Workspace *ws, const Document *document);
Status find_word_columns(Workspace *ws, size_t n);

/* Sort columns below a width; the sorted array, `from` or `spare`, is returned. */
uint32_t *sort_columns(uint32_t *from, uint32_t *spare, size_t n, uint32_t width);

/* Write sorted columns, each once, as a row, and on request their numbers of occurrences; return the row's length. */
size_t put_distinct(const uint32_t *sorted, size_t n, uint32_t *row, uint32_t *counts);

/* Append the columns found as a row to ws->ids. */
Status settle_columns(Workspace *ws, bool counted);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
