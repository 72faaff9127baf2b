/* The mail kernel of surebayes, which reads the text of a message's parts, its header fields and its header tokens.
 *
 * Each byte of the input is read a bounded number of times. surebayes.mail.readers has the same functions in Python;
 * the tests run both on the same input and compare the results.
 */
#include "header_tables.h"
#include "html.h"
#include "module.h"

/* Prefixes of the field names that filters add: a tuple of bytes. */
static int add_filter_fields(PyObject *module)
{
    PyObject *names = PyTuple_New(FILTER_FIELDS);
    for (int i = 0; names && i < FILTER_FIELDS; i++) {
        PyObject *name = PyBytes_FromStringAndSize(silent_fields[i].name, silent_fields[i].size);
        if (!name || PyTuple_SetItem(names, i, name) < 0)
            Py_CLEAR(names);
    }
    int failed = !names || PyModule_AddObjectRef(module, "FILTER_FIELDS", names) < 0;
    Py_XDECREF(names);
    return failed ? -1 : 0;
}

static int module_exec(PyObject *module)
{
    PyMethodDef *const parts[] = {html_functions,         header_functions,  fingerprint_functions, mime_functions,
                                  header_token_functions, mailbox_functions, batch_functions};
    fill_element_slots();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (PyModule_AddFunctions(module, parts[i]) < 0)
            return -1;
    return add_filter_fields(module);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};

PyDoc_STRVAR(module_doc, "The mail kernel: a mail to its text, header fields and tokens. See surebayes.mail.readers "
                         "for the same in Python.");

static struct PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "surebayes.kernels._mail", .m_doc = module_doc, .m_slots = module_slots};

PyMODINIT_FUNC PyInit__mail(void)
{
    return PyModuleDef_Init(&module_def);
}
