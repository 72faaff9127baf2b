/* The Python type Scorer, which computes linear scores of documents without a matrix. */
#include "documents.h"
#include "module.h"

PyDoc_STRVAR(
    scorer_doc,
    "Scorer(analyzer, vocabulary, n_features, records, prior, *, alternate_sign=False, binary=False, tf='count', "
    "weighted=False,\n"
    "       columns=None, top=0, steepness=None, norm=None, pad=0.0, length=1.0)\n--\n\n"
    "Linear scores of text: prior + z @ log_odds, z the represented row.\n\n"
    "records: for each id one record of float64: [weight, if weighted] [rank, if top] log-odds of each class.\n"
    "prior: one float64 per class. vocabulary None: hash into n_features. columns: column of each id (int32), negative "
    "to leave the\n"
    "term out. Terms of lower rank come first, then those of the lower column. z: count (1 if binary) -> tf "
    "-> the `top` best by rank -> times weight ->\n"
    "exp(steepness * value) -> divided by its norm ('l1' or 'l2') plus pad -> times length.");

typedef enum { TF_COUNT, TF_BINARY, TF_LOG } Tf;

typedef struct {
    PyObject_HEAD Analyzer *analyzer;
    Vocabulary *vocabulary;
    Py_buffer records, prior, columns;
    bool has_records, has_prior, has_columns, alternate_sign, binary, weighted, softmax;
    uint32_t n_features;
    Tf tf;
    int norm; /* 0, 1, 2 */
    double steepness, pad, length;
    size_t top, classes, stride, known; /* known: number of records */
    double logs[64];                    /* log(1 + n) of small n */
} Scorer;

/* Whether entry a ranks above entry b. */
static inline bool better(const Candidate *a, const Candidate *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->column < b->column);
}

/* Restore the heap (the worst at the root) below `i`. */
static void sift_down(Candidate *heap, size_t n, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(&heap[child], &heap[child + 1]))
            child++;
        if (!better(&heap[i], &heap[child]))
            return;
        Candidate swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
    }
}

static inline Candidate candidate_of(const Scorer *s, uint32_t id)
{
    const double *rank = (const double *)s->records.buf + s->weighted;
    uint32_t column = s->has_columns ? (uint32_t)((const int32_t *)s->columns.buf)[id] : id;
    return (Candidate){rank[(size_t)id * s->stride], column};
}

/* Keep the `top` best entries of a row, in their order; n log(top) in the worst case. */
static Status keep_top(const Scorer *s, Workspace *ws, uint32_t *ids, int32_t *counts, size_t *n)
{
    if (reserve(&ws->heap, &ws->heap_room, s->top, sizeof *ws->heap) != OK)
        return NO_MEMORY;
    Candidate *heap = ws->heap;
    for (size_t i = 0; i < s->top; i++)
        heap[i] = candidate_of(s, ids[i]);
    for (size_t i = s->top / 2 + 1; i-- > 0;)
        sift_down(heap, s->top, i);
    for (size_t i = s->top; i < *n; i++) {
        Candidate c = candidate_of(s, ids[i]);
        if (better(&c, &heap[0])) {
            heap[0] = c;
            sift_down(heap, s->top, 0);
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < *n && kept < s->top; i++) {
        Candidate c = candidate_of(s, ids[i]);
        if (better(&heap[0], &c))
            continue;
        ids[kept] = ids[i];
        counts[kept++] = counts[i];
    }
    *n = kept;
    return OK;
}

/* Term frequency times weight. */
static inline double term_value(const Scorer *s, uint32_t id, int32_t count)
{
    double value = 1.0;
    if (s->tf == TF_COUNT)
        value = s->binary ? 1 : count;
    else if (s->tf == TF_LOG)
        value = s->binary ? s->logs[1] : count >= 0 && count < 64 ? s->logs[count] : log1p(count);
    return s->weighted ? value * ((const double *)s->records.buf)[(size_t)id * s->stride] : value;
}

/* Drop terms that are newer than the model, or excluded by it. */
static size_t keep_known(const Scorer *s, uint32_t *ids, int32_t *counts, size_t n)
{
    const int32_t *columns = s->has_columns ? s->columns.buf : NULL;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < s->known && !(columns && columns[ids[i]] < 0)) {
            ids[kept] = ids[i];
            counts[kept++] = counts[i];
        }
    return kept;
}

/* The scores of one row; overwrites ids and counts. */
static Status score_row(const Scorer *s, Workspace *ws, uint32_t *ids, int32_t *counts, size_t n, double *out)
{
    const double *records = s->records.buf;
    n = keep_known(s, ids, counts, n);
    if (s->top && n > s->top && keep_top(s, ws, ids, counts, &n) != OK)
        return NO_MEMORY;
    double size = 0, largest = 0;
    for (size_t k = 0; k < s->classes; k++)
        out[k] = 0;
    if (s->softmax && s->norm && s->pad == 0 &&
        n) { /* the norm cancels any factor, so the largest exponent becomes 0: no overflow */
        largest = s->steepness * term_value(s, ids[0], counts[0]);
        for (size_t i = 1; i < n; i++)
            largest = fmax(largest, s->steepness * term_value(s, ids[i], counts[i]));
    }
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            PREFETCH(records + (size_t)ids[i + AHEAD] * s->stride);
        const double *record = records + (size_t)ids[i] * s->stride;
        double value = term_value(s, ids[i], counts[i]);
        if (s->softmax)
            value = exp(s->steepness * value - largest);
        size += s->norm == 2 ? value * value : fabs(value);
        const double *log_odds = record + s->weighted + (s->top > 0);
        for (size_t k = 0; k < s->classes; k++)
            out[k] += value * log_odds[k];
    }
    double scale = s->length;
    if (s->norm) {
        size = (s->norm == 2 ? sqrt(size) : size) + s->pad;
        scale = size > 0 ? scale / size : 0;
    }
    for (size_t k = 0; k < s->classes; k++)
        out[k] = ((const double *)s->prior.buf)[k] + scale * out[k];
    return OK;
}

typedef struct {
    const Scorer *scorer;
    double *scores;
} Scoring;

static Status score_done(Workspace *ws, size_t index, void *context)
{
    Scoring *scoring = context;
    double *out = scoring->scores + index * scoring->scorer->classes;
    Status status = score_row(scoring->scorer, ws, ws->ids + ws->row, ws->counts + ws->row, ws->used - ws->row, out);
    ws->used = ws->row = 0;
    return status;
}

static double *scores_for(const Scorer *self, size_t n, size_t *bytes)
{
    if (n && self->classes > SIZE_MAX / sizeof(double) / n) {
        PyErr_NoMemory();
        return NULL;
    }
    *bytes = n * self->classes * sizeof(double);
    double *scores = calloc(*bytes ? *bytes : 1, 1);
    if (!scores)
        PyErr_NoMemory();
    return scores;
}

PyDoc_STRVAR(scorer_score_doc,
             "score(documents)\n--\n\nThe scores of a list of documents: float64, one row per document.");
static PyObject *scorer_score(PyObject *object, PyObject *documents)
{
    Scorer *self = (Scorer *)object;
    State *state = state_of_type(object);
    if (!is_list(documents))
        return NULL;
    if (!self->analyzer) {
        PyErr_SetString(PyExc_ValueError, "this Scorer has no analyzer: use score_rows");
        return NULL;
    }
    if (self->vocabulary && may_read(self->vocabulary) < 0)
        return NULL;
    size_t bytes;
    double *scores = scores_for(self, (size_t)PyList_Size(documents), &bytes);
    Workspace *ws = scores ? workspace_take(state) : NULL;
    if (!ws) {
        free(scores);
        return NULL;
    }
    ws->analyzer = self->analyzer;
    ws->table = self->vocabulary ? &self->vocabulary->table : NULL;
    ws->grow = false;
    ws->columns = self->n_features;
    ws->alternate_sign = self->alternate_sign;
    if (self->vocabulary)
        self->vocabulary->readers++;
    Scoring scoring = {self, scores};
    int failed = each_document(ws, documents, score_done, &scoring) < 0;
    if (self->vocabulary)
        self->vocabulary->readers--;
    workspace_give_back(ws);
    if (failed) {
        free(scores);
        return NULL;
    }
    return block_of(state, scores, bytes);
}

static Status score_given_rows(const Scorer *self, Workspace *ws, const Py_buffer views[3], double *scores)
{
    const uint32_t *lengths = views[0].buf, *ids = views[1].buf;
    const int32_t *counts = views[2].buf;
    size_t left = items_in(&views[1], 4);
    Status status = OK;
    for (size_t r = 0; status == OK && r < items_in(&views[0], 4); r++) {
        size_t n = lengths[r] < left ? lengths[r] : left; /* larger only if another thread writes to the buffer */
        left -= n;
        if (reserve(&ws->ids, &ws->ids_room, n + 1, 4) != OK || reserve(&ws->counts, &ws->counts_room, n + 1, 4) != OK)
            return NO_MEMORY;
        if (n) {
            memcpy(ws->ids, ids, n * 4);
            memcpy(ws->counts, counts, n * 4);
        }
        status = score_row(self, ws, ws->ids, ws->counts, n, scores + r * self->classes);
        ids += n;
        counts += n;
    }
    return status;
}

PyDoc_STRVAR(scorer_score_rows_doc, "score_rows(lengths, ids, counts)\n--\n\nThe scores of rows from count().");
static PyObject *scorer_score_rows(PyObject *object, PyObject *args)
{
    Scorer *self = (Scorer *)object;
    State *state = state_of_type(object);
    PyObject *from[3];
    if (!PyArg_ParseTuple(args, "OOO:score_rows", &from[0], &from[1], &from[2]))
        return NULL;
    static const char *const names[3] = {"lengths", "ids", "counts"};
    Py_buffer views[3];
    int have = 0;
    while (have < 3 && get_items(from[have], &views[have], 4, false, names[have]) == 0)
        have++;
    PyObject *result = NULL;
    if (have == 3) {
        uint64_t total = 0;
        for (size_t r = 0; r < items_in(&views[0], 4); r++)
            total += ((const uint32_t *)views[0].buf)[r];
        size_t bytes;
        double *scores = NULL;
        Workspace *ws = NULL;
        if (total != items_in(&views[1], 4) || total != items_in(&views[2], 4))
            PyErr_SetString(PyExc_ValueError,
                            "lengths, ids and counts are inconsistent: pass the result of count() unchanged");
        else if ((scores = scores_for(self, items_in(&views[0], 4), &bytes)))
            ws = workspace_take(state);
        if (ws) {
            Status status;
            Py_BEGIN_ALLOW_THREADS
            status = score_given_rows(self, ws, views, scores);
            Py_END_ALLOW_THREADS
            workspace_give_back(ws);
            if (status == OK) {
                result = block_of(state, scores, bytes);
                scores = NULL;
            } else
                raise_status(status);
        }
        free(scores);
    }
    while (have--)
        PyBuffer_Release(&views[have]);
    return result;
}

/* The index of a name among the known ones; -1 with an exception. */
static int choose(const char *parameter, const char *got, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(got, names[i]))
            return i;
    PyErr_Format(PyExc_ValueError, "%s: '%s' is not one of the known names", parameter, got);
    return -1;
}

static int scorer_fill(Scorer *self, PyObject *records, PyObject *prior, PyObject *columns)
{
    if (get_items(prior, &self->prior, sizeof(double), false, "prior") < 0)
        return -1;
    self->has_prior = true;
    if (get_items(records, &self->records, sizeof(double), false, "records") < 0)
        return -1;
    self->has_records = true;
    self->classes = items_in(&self->prior, sizeof(double));
    self->stride = self->classes + self->weighted + (self->top > 0);
    if (!self->classes || items_in(&self->records, sizeof(double)) % self->stride) {
        PyErr_Format(PyExc_ValueError, "records must have %zu numbers per term (and prior one per class), got %zu",
                     self->stride, items_in(&self->records, sizeof(double)));
        return -1;
    }
    self->known = items_in(&self->records, sizeof(double)) / self->stride;
    if (columns != Py_None) {
        if (get_items(columns, &self->columns, sizeof(int32_t), false, "columns") < 0)
            return -1;
        self->has_columns = true;
        if (items_in(&self->columns, sizeof(int32_t)) < self->known) {
            PyErr_Format(PyExc_ValueError, "columns must have one number per term: %zu", self->known);
            return -1;
        }
    }
    for (int i = 0; i < 64; i++)
        self->logs[i] = log1p(i);
    return 0;
}

static PyObject *scorer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"analyzer", "vocabulary", "n_features", "records", "prior", "alternate_sign",
                            "binary",   "tf",         "weighted",   "columns", "top",   "steepness",
                            "norm",     "pad",        "length",     NULL};
    State *state = PyType_GetModuleState(type);
    PyObject *analyzer, *vocabulary, *records, *prior, *columns = Py_None, *steepness = Py_None;
    Py_ssize_t n_features, top = 0;
    int alternate_sign = 0, binary = 0, weighted = 0;
    const char *tf = "count", *norm = NULL;
    double pad = 0, length = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOnOO|$ppspOnOzdd:Scorer", names, &analyzer, &vocabulary,
                                     &n_features, &records, &prior, &alternate_sign, &binary, &tf, &weighted, &columns,
                                     &top, &steepness, &norm, &pad, &length))
        return NULL;
    if (analyzer != Py_None && !PyObject_TypeCheck(analyzer, state->analyzer_type))
        return PyErr_Format(PyExc_TypeError, "analyzer must be an Analyzer or None, got %R",
                            (PyObject *)Py_TYPE(analyzer));
    if (vocabulary != Py_None && !PyObject_TypeCheck(vocabulary, state->vocabulary_type))
        return PyErr_Format(PyExc_TypeError, "vocabulary must be a Vocabulary or None, got %R",
                            (PyObject *)Py_TYPE(vocabulary));
    if (n_features < (vocabulary == Py_None) || n_features > 0x7fffffff || top < 0)
        return PyErr_Format(PyExc_ValueError,
                            "n_features must be between 1 and 2147483647 and top not negative, got %zd and %zd",
                            n_features, top);
    static const char *const tfs[] = {"count", "binary", "log"}, *const norms[] = {"none", "l1", "l2"};
    int which_tf = choose("tf", tf, tfs, 3), which_norm = norm ? choose("norm", norm, norms, 3) : 0;
    if (which_tf < 0 || which_norm < 0)
        return NULL;
    double steep = steepness == Py_None ? 0 : PyFloat_AsDouble(steepness);
    if (steep == -1.0 && PyErr_Occurred())
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Scorer *self = (Scorer *)allocate(type, 0);
    if (!self)
        return NULL;
    self->analyzer = analyzer == Py_None ? NULL : (Analyzer *)Py_NewRef(analyzer);
    self->vocabulary = vocabulary == Py_None ? NULL : (Vocabulary *)Py_NewRef(vocabulary);
    self->n_features = (uint32_t)n_features;
    self->alternate_sign = alternate_sign, self->binary = binary, self->weighted = weighted;
    self->tf = (Tf)which_tf, self->norm = which_norm, self->top = (size_t)top;
    self->softmax = steepness != Py_None, self->steepness = steep, self->pad = pad, self->length = length;
    if (scorer_fill(self, records, prior, columns) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void scorer_dealloc(PyObject *object)
{
    Scorer *self = (Scorer *)object;
    Py_XDECREF((PyObject *)self->analyzer);
    Py_XDECREF((PyObject *)self->vocabulary);
    if (self->has_records)
        PyBuffer_Release(&self->records);
    if (self->has_prior)
        PyBuffer_Release(&self->prior);
    if (self->has_columns)
        PyBuffer_Release(&self->columns);
    plain_dealloc(object);
}

static PyMethodDef scorer_methods[] = {{"score", scorer_score, METH_O, scorer_score_doc},
                                       {"score_rows", scorer_score_rows, METH_VARARGS, scorer_score_rows_doc},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot scorer_slots[] = {{Py_tp_doc, (void *)scorer_doc},
                                     {Py_tp_new, scorer_new},
                                     {Py_tp_dealloc, scorer_dealloc},
                                     {Py_tp_methods, scorer_methods},
                                     {0, NULL}};
PyType_Spec scorer_spec = {.name = "surebayes.kernels._text.Scorer",
                           .basicsize = sizeof(Scorer),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = scorer_slots};
