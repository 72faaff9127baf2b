/* The text kernel of surebayes, which converts documents to tokens, and tokens to counts, hashed counts or scores.
 *
 * It uses flat buffers instead of numpy, and Python's limited API, so that one binary is for every Python from 3.11 on.
 * reference/text.py has the same functions in Python; the tests run both on the same input and compare the results.
 *
 * A document becomes a row in four steps:
 *
 * - prepare: lower-cases the UTF-8 text into a scratch buffer and marks word characters (or spaces), one bit per byte.
 * A lower-case letter replaces its capital in place; the few capitals whose lower case has another length in UTF-8, or
 *   depends on the context (U+03A3), send the document to str.lower() instead.
 *
 * - analyze: walks the runs of the bit mask and emits tokens: spans of the scratch buffer, never copies.
 *
 * - put: counts a token of the document, in a small hash table that stays in the first-level cache.
 *
 * - look_up: finds the ids of the document's distinct tokens (about half of all) in the large table of the vocabulary;
 *   the next few are prefetched, so that their cache misses overlap.
 *
 * The GIL is held only while a batch of documents is collected. Worker code never calls Python: when it needs Python
 * (an unknown character, a document for str.lower()) it returns a status, the driver does the work under the GIL, and
 * the document starts again. Nothing of a document is counted before it has been prepared, so starting again is safe.
 */

#include "module.h"
#include "workspace.h"

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *type ? PyModule_AddType(module, *type) : -1;
}

static int module_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if (take_secrets() < 0 || PyModule_AddFunctions(module, counting_functions) < 0 ||
        PyModule_AddFunctions(module, placing_functions) < 0 ||
        PyModule_AddFunctions(module, word_views_functions) < 0 ||
        add_type(module, &block_spec, &state->block_type) < 0 ||
        add_type(module, &analyzer_spec, &state->analyzer_type) < 0 ||
        add_type(module, &vocabulary_spec, &state->vocabulary_type) < 0 ||
        add_type(module, &scorer_spec, &state->scorer_type) < 0)
        return -1;
    state->isascii = PyUnicode_InternFromString("isascii");
    state->isalnum = PyUnicode_InternFromString("isalnum");
    state->isspace = PyUnicode_InternFromString("isspace");
    state->lower = PyUnicode_InternFromString("lower");
    return state->isascii && state->isalnum && state->isspace && state->lower ? 0 : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    if (state) {
        Py_VISIT(state->block_type);
        Py_VISIT(state->analyzer_type);
        Py_VISIT(state->vocabulary_type);
        Py_VISIT(state->scorer_type);
    }
    return 0;
}

static int module_clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if (state) {
        Py_CLEAR(state->block_type);
        Py_CLEAR(state->analyzer_type);
        Py_CLEAR(state->vocabulary_type);
        Py_CLEAR(state->scorer_type);
        Py_CLEAR(state->isascii);
        Py_CLEAR(state->isalnum);
        Py_CLEAR(state->isspace);
        Py_CLEAR(state->lower);
    }
    return 0;
}

static void module_free(void *module)
{
    State *state = PyModule_GetState(module);
    if (!state)
        return;
    module_clear(module);
    for (int i = 0; i < PAGES; i++)
        free(state->pages[i]);
    while (state->idle) {
        Workspace *next = state->idle->next;
        workspace_free(state->idle);
        state->idle = next;
    }
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};

PyDoc_STRVAR(module_doc, "The text kernel: documents to tokens to counts, hashed counts or scores. See "
                         "surebayes.kernels.reference.text for the same in Python.");

static struct PyModuleDef module_def = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "surebayes.kernels._text",
                                        .m_doc = module_doc,
                                        .m_size = sizeof(State),
                                        .m_slots = module_slots,
                                        .m_traverse = module_traverse,
                                        .m_clear = module_clear,
                                        .m_free = module_free};

PyMODINIT_FUNC PyInit__text(void)
{
    return PyModuleDef_Init(&module_def);
}
