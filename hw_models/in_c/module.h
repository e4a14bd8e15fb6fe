/* What every module in C ends with: it knows of which files it was built (hw_models/in_c/__init__.py).
 */
#ifndef SOURCES
#define SOURCES "" /* what tells those files from others */
#endif

/* Return a new module, or NULL with an exception set. */
static PyObject *module_of(struct PyModuleDef *definition) {
    PyObject *found = PyModule_Create(definition);
    if (found && PyModule_AddStringConstant(found, "sources", SOURCES) < 0) Py_CLEAR(found);
    return found;
}
