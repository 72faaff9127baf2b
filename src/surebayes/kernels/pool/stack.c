/* Stacks of tables with added counts: a lesson as a small table, and the merging of several tables.
 *
 * Merging reads tables of files in the order of their keys and checks every block, so damaged bytes are never written
 * again.
 */
#include "pool.h"

int stack_open(Stack *stack, Buffers *buffers, PyObject *list, size_t each)
{
    memset(stack, 0, sizeof *stack);
    int good = PyList_Check(list) && PyList_Size(list) > 0;
    stack->n = good ? (size_t)PyList_Size(list) : 0;
    stack->tables = calloc(stack->n + 1, sizeof *stack->tables);
    stack->weights = calloc(stack->n + 1, sizeof *stack->weights);
    stack->width = INT32_MAX;
    if (!stack->tables || !stack->weights) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; good && i < stack->n; i++) {
        PyObject *pair = PyList_GetItem(list, (Py_ssize_t)i);
        good = PyTuple_Check(pair) && PyTuple_Size(pair) == 2;
        if (good) {
            stack->weights[i] = PyLong_AsLongLong(PyTuple_GetItem(pair, 1));
            good = !PyErr_Occurred() && stack->weights[i] >= 1 && stack->weights[i] <= 1000000 &&
                   table_open(&stack->tables[i], buffers, PyTuple_GetItem(pair, 0), each, 0) == 0;
        }
        if (good && stack->tables[i].width < stack->width)
            stack->width = stack->tables[i].width;
    }
    if (!good && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a stack is a list of (table, weight from 1 to 1000000)");
    return good ? 0 : -1;
}

void stack_close(Stack *stack)
{
    free(stack->tables);
    free(stack->weights);
}

const char *stack_gather(Stack *stack, size_t each, const int32_t *columns, size_t n, int32_t *counts, int32_t *more)
{
    const size_t values = n * each;
    for (size_t i = 0; i < stack->n; i++) {
        int32_t *out = i ? more : counts;
        if (i && stack->tables[i].in_file && !stack->tables[i].n)
            continue;
        if (table_gather(&stack->tables[i], columns, n, out) < 0)
            return table_damaged;
        const int64_t weight = stack->weights[i];
        int beyond = 0;
        if (!i && weight == 1)
            continue;
        for (size_t v = 0; v < values; v++) {
            int64_t sum = (i ? counts[v] : 0) + weight * out[v];
            beyond |= sum > INT32_MAX || sum < -INT32_MAX;
            counts[v] = (int32_t)sum;
        }
        if (beyond)
            return "counts exceed 2**31";
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ a lesson */

/* The change of the number of known columns when a document is learnt or forgotten. Return the error, or NULL. */
static const char *alive_after(const int32_t *counts, size_t n, size_t classes, size_t label, int forget,
                               int64_t *alive)
{
    int32_t negative = 0, missing = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t *own = counts + i * classes;
        int64_t all = 0;
        for (size_t k = 0; k < classes; k++) {
            negative |= own[k];
            all += own[k];
        }
        if (forget) {
            missing |= own[label] < 1;
            *alive -= all == 1;
        } else
            *alive += all == 0;
    }
    if (negative < 0)
        return "the tables have counts below zero";
    if (missing)
        return "Cannot forget documents that were never learnt: a sum would go below zero. Nothing was changed.";
    return NULL;
}

const char lesson_alive_doc[] =
    "lesson_alive(rows, stack, classes, label, forget)\n--\n\n"
    "Return the change of the number of columns with documents when the first document of the rows is "
    "learnt as the class `label`, or forgotten. stack: a list of (table, weight), whose counts are added. "
    "ValueError if a count would fall below zero.";
PyObject *pool_lesson_alive(PyObject *module, PyObject *args)
{
    PyObject *from, *list, *result = NULL;
    Py_ssize_t classes, label;
    int forget;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOnnp:lesson_alive", &from, &list, &classes, &label, &forget))
        return NULL;
    if (classes < 1 || classes > INT32_MAX || label < 0 || label >= classes) {
        PyErr_SetString(PyExc_ValueError, "the label must be below the number of classes");
        return NULL;
    }
    Buffers *buffers = calloc(1, sizeof *buffers);
    if (!buffers)
        return PyErr_NoMemory();
    Stack stack = {.n = 0};
    Rows rows;
    int32_t *counts = NULL, *more = NULL;
    int64_t alive = 0;
    const char *wrong = NULL;
    if (stack_open(&stack, buffers, list, (size_t)classes) < 0 ||
        rows_open(&rows, buffers, from, Py_None, stack.width) < 0)
        goto done;
    if (rows.n_documents != 1) {
        PyErr_SetString(PyExc_ValueError, "a lesson is one document");
        goto done;
    }
    const int32_t *columns = rows.columns + rows.indptr[0];
    size_t n = (size_t)(rows.indptr[1] - rows.indptr[0]);
    counts = malloc((n + 1) * (size_t)classes * sizeof *counts);
    more = malloc((n + 1) * (size_t)classes * sizeof *more);
    if (!counts || !more) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    wrong = stack_gather(&stack, (size_t)classes, columns, n, counts, more);
    if (!wrong)
        wrong = alive_after(counts, n, (size_t)classes, (size_t)label, forget, &alive);
    Py_END_ALLOW_THREADS
    if (wrong)
        PyErr_SetString(PyExc_ValueError, wrong);
    else
        result = PyLong_FromLongLong(alive);
done:
    free(counts);
    free(more);
    stack_close(&stack);
    buffers_close(buffers);
    free(buffers);
    return result;
}

const char lesson_entries_doc[] =
    "lesson_entries(rows, classes, label, forget)\n--\n\n"
    "Return the first document of the rows as entries of a table: 1 for each of its columns and the class "
    "`label`, or -1 for a forgotten document.";
PyObject *pool_lesson_entries(PyObject *module, PyObject *args)
{
    PyObject *from, *result = NULL;
    Py_ssize_t classes, label;
    int forget;
    (void)module;
    if (!PyArg_ParseTuple(args, "Onnp:lesson_entries", &from, &classes, &label, &forget))
        return NULL;
    Buffers buffers = {.n = 0};
    Rows rows;
    int bits = classes > 0 ? key_bits((size_t)classes) : 0;
    if (rows_open(&rows, &buffers, from, Py_None, ((uint64_t)1 << 32) >> bits) < 0)
        goto done;
    const int32_t *columns = rows.columns + (rows.n_documents ? rows.indptr[0] : 0);
    size_t n = rows.n_documents ? (size_t)(rows.indptr[1] - rows.indptr[0]) : 0;
    int good = classes > 0 && label >= 0 && label < classes && rows.n_documents == 1;
    for (size_t i = 1; good && i < n; i++)
        good = columns[i] > columns[i - 1];
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "a lesson is one document with ascending columns, and one of the classes");
        goto done;
    }
    if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(8 * n)))) {
        uint32_t *out = (uint32_t *)PyBytes_AsString(result);
        for (size_t i = 0; i < n; i++) {
            out[2 * i] = (uint32_t)columns[i] << bits | (uint32_t)label;
            out[2 * i + 1] = forget ? (uint32_t)-1 : 1u;
        }
    }
done:
    buffers_close(&buffers);
    return result;
}

/* ------------------------------------------------------------------------------------------------ merging */

/* Check the blocks and the order of keys of a table in a file. Return the error, or NULL. */
static const char *check_entries(Table *t)
{
    uint32_t before = 0;
    for (size_t b = 0; b < t->blocks; b++) {
        if (!table_block(t, b))
            return table_damaged;
        size_t end = (b + 1) * ENTRIES < t->n ? (b + 1) * ENTRIES : t->n;
        int descend = 0;
        for (size_t i = b * ENTRIES; i < end; i++) {
            uint32_t key = word(t->entries + 8 * i);
            descend |= i && key <= before;
            before = key;
        }
        if (descend)
            return "an entry of the table is out of order, or of another table";
    }
    return NULL;
}

/* Merge two lists of entries, the second in a file; values of equal keys are added, and sums of 0 dropped. Return the
 * number of entries. */
static size_t merge_two(const uint32_t *a, size_t n, const uint8_t *b, size_t m, uint32_t *out, int *beyond)
{
    const uint32_t *last_a = a + 2 * n, *start = out;
    const uint8_t *last_b = b + 8 * m;
    while (a < last_a && b < last_b) {
        uint32_t x = a[0], y = word(b);
        int64_t value = (x <= y ? (int64_t)(int32_t)a[1] : 0) + (y <= x ? (int64_t)(int32_t)word(b + 4) : 0);
        *beyond |= value > INT32_MAX || value < -INT32_MAX;
        out[0] = x < y ? x : y;
        out[1] = (uint32_t)value;
        out += value ? 2 : 0;
        a += x <= y ? 2 : 0;
        b += y <= x ? 8 : 0;
    }
    for (; a < last_a; a += 2, out += 2)
        out[0] = a[0], out[1] = a[1];
    for (; b < last_b; b += 8, out += 2)
        out[0] = word(b), out[1] = word(b + 4);
    return (size_t)(out - start) / 2;
}

/* Merge all tables, smallest first; the caller frees the entries in *result. */
static const char *merge_all(Table *tables, size_t n_tables, uint32_t **result, size_t *n)
{
    const char *wrong = NULL;
    int beyond = 0;
    uint32_t *sum = malloc(8); /* not NULL: even an offset of 0 from NULL is undefined */
    *n = 0;
    if (!sum)
        wrong = "there is not enough memory";
    for (size_t done = 0; done < n_tables && !wrong; done++) {
        Table *next = NULL;
        for (size_t i = 0; i < n_tables; i++) /* in_file is cleared when a table is done */
            if (tables[i].in_file && (!next || tables[i].n < next->n))
                next = &tables[i];
        if (!next)
            break;
        next->in_file = 0;
        uint32_t *both = malloc(8 * (next->n + *n) + 8);
        wrong = both ? check_entries(next) : "there is not enough memory";
        if (!wrong) {
            *n = merge_two(sum, *n, next->entries, next->n, both, &beyond);
            free(sum);
            sum = both, both = NULL;
        }
        free(both);
    }
    *result = sum;
    return wrong ? wrong : beyond ? "counts exceed 2**31" : NULL;
}

const char merge_doc[] =
    "merge(tables, each)\n--\n\n"
    "Merge the entries of several tables in files: values of equal keys are added, and sums of 0 dropped. "
    "Every block is checked; ValueError for a damaged one.";
PyObject *pool_merge(PyObject *module, PyObject *args)
{
    PyObject *list, *result = NULL;
    Py_ssize_t each;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!n:merge", &PyList_Type, &list, &each))
        return NULL;
    size_t n_tables = (size_t)PyList_Size(list), n = 0;
    Buffers *buffers = calloc(1, sizeof *buffers);
    Table *tables = calloc(n_tables + 1, sizeof *tables);
    uint32_t *entries = NULL;
    const char *wrong = NULL;
    if (!buffers || !tables) {
        PyErr_NoMemory();
        goto done;
    }
    for (size_t i = 0; i < n_tables; i++) {
        if (each < 1 || table_open(&tables[i], buffers, PyList_GetItem(list, (Py_ssize_t)i), (size_t)each, 0) < 0 ||
            !tables[i].in_file) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "merge takes tables in files");
            goto done;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    wrong = merge_all(tables, n_tables, &entries, &n);
    Py_END_ALLOW_THREADS
    if (wrong)
        PyErr_SetString(PyExc_ValueError, wrong);
    else
        result = PyBytes_FromStringAndSize((const char *)entries, (Py_ssize_t)(8 * n));
done:
    free(entries);
    free(tables);
    if (buffers)
        buffers_close(buffers);
    free(buffers);
    return result;
}
