/* Creation of a module that carries the digest of its source files, so that a stale build is detected
 * (hw_models/in_c/__init__.py).
 */
#ifndef SOURCES
#define SOURCES "" /* digest of the source files; setup.py sets it */
#endif

/* Return a new module, or NULL with an exception set. */
static PyObject *module_of(struct PyModuleDef *definition) {
    PyObject *found = PyModule_Create(definition);
    if (found && PyModule_AddStringConstant(found, "sources", SOURCES) < 0) Py_CLEAR(found);
    return found;
}
