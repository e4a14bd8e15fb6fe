/* Tile search, compiled: returns the same tiles as scheduler/dsa/tiling/search.py, with the same rounding. Its input is
 * labelled records (scheduler/dsa/tiling/records.py), independent of the operators and the kind of array. Layers whose
 * regions those records cannot express are searched in Python, and so is everything but the search itself.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tile_layer.h"
#include "tile_cuts.h"
#include "tile_search.h"
#include "tile_reading.h"
#include "tile_records.h"
#include "../../hw_models/in_c/module.h"

typedef struct {
    PyObject_HEAD
    Search search;
    Block *blocks; /* arrays of the layer */
} Tiles;

static PyObject *tiles_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *given;
    if (kwargs && PyDict_GET_SIZE(kwargs)) { PyErr_SetString(PyExc_TypeError, "no keywords"); return NULL; }
    if (!PyArg_ParseTuple(args, "O", &given)) return NULL;
    Tiles *tiles = (Tiles *)type->tp_alloc(type, 0);
    if (!tiles) return NULL;
    Search *s = &tiles->search;
    read_layer(given, &s->layer, &tiles->blocks);
    if (PyErr_Occurred()) { Py_DECREF(tiles); return NULL; }
    s->n_limits = s->layer.n_dims + 1;
    for (int n = 0; n < s->n_limits; n++)
        while ((int64_t)1 << s->limits[n] < s->layer.extents[n]) s->limits[n]++;
    return (PyObject *)tiles;
}

static void tiles_dealloc(Tiles *tiles) {
    Search *s = &tiles->search;
    for (int n = 0; n < s->n_cuts; n++) free(s->cuts[n]);
    free(s->cuts);
    free(s->slots);
    free_blocks(tiles->blocks);
    Py_TYPE(tiles)->tp_free((PyObject *)tiles);
}

PyDoc_STRVAR(search_doc,
    "search(asked)\n--\n\n"
    "Return the best tiling, as the number of halvings of each dimension of a core's part (the reduction depth last),\n"
    "and its estimated time in ps; None if not even single elements fit. ``asked``: the record `Asked` of a request.");

static PyObject *tiles_search(Tiles *tiles, PyObject *given) {
    Search *s = &tiles->search;
    Asked asked = {0};
    Block *blocks = NULL;
    read_asked(given, &s->layer, &asked, &blocks);
    s->has_no_memory = 0;
    const Cut *best = PyErr_Occurred() ? NULL : search(s, &asked);
    free_blocks(blocks);
    if (PyErr_Occurred()) return NULL;
    if (s->has_no_memory) return PyErr_NoMemory();
    if (!best) Py_RETURN_NONE;
    PyObject *found = PyTuple_New(s->n_limits);
    for (int n = 0; found && n < s->n_limits; n++) {
        PyObject *times = PyLong_FromLong(halvings_of(best->key, n));
        if (!times) Py_CLEAR(found);
        else PyTuple_SET_ITEM(found, n, times);
    }
    return found ? Py_BuildValue("(Nd)", found, best->estimate_ps) : NULL;
}

PyDoc_STRVAR(work_doc,
    "work(tile, depth)\n--\n\n"
    "Return the work of a tile of ``tile`` elements per dimension and ``depth`` iterations of the depth loop, 0 for all:\n"
    "bytes of each operand, of the output and of what is held between nests, and the time of each unit in ps.");

static PyObject *tuple_of(const int64_t *numbers, int count) {
    PyObject *found = PyTuple_New(count);
    for (int n = 0; found && n < count; n++) {
        PyObject *number = PyLong_FromLongLong(numbers[n]);
        if (!number) Py_CLEAR(found);
        else PyTuple_SET_ITEM(found, n, number);
    }
    return found;
}

static PyObject *tiles_work(Tiles *tiles, PyObject *args) {
    const Layer *layer = &tiles->search.layer;
    PyObject *given;
    long long depth;
    int64_t tile[MOST_RANK];
    if (!PyArg_ParseTuple(args, "O!L", &PyTuple_Type, &given, &depth)) return NULL;
    int known = PyTuple_GET_SIZE(given) == layer->n_dims && depth >= 0;
    for (int d = 0; known && d < layer->n_dims; d++) {
        tile[d] = PyLong_AsLongLong(PyTuple_GET_ITEM(given, d));
        if (PyErr_Occurred()) return NULL;
        known = tile[d] >= 1 && tile[d] <= layer->sink_shape[d];
    }
    if (!known) { PyErr_SetString(PyExc_ValueError, "no tile of the layer"); return NULL; }
    Work work;
    work_of(layer, tile, depth, &work);
    return Py_BuildValue("(NLLN)", tuple_of(work.operand_bytes, layer->n_operands), (long long)work.output_bytes,
                         (long long)work.between_bytes, tuple_of(work.unit_ps, layer->n_units));
}

static PyMethodDef tiles_methods[] = {
    {"search", (PyCFunction)tiles_search, METH_O, search_doc}, {"work", (PyCFunction)tiles_work, METH_VARARGS, work_doc},
    {NULL, NULL, 0, NULL}};

static PyTypeObject tiles_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dsascape.scheduler.in_c.tiles.Tiles",
    .tp_doc = "Tile searcher for one layer in one memory layout on machines with the same compute units; caches costs.",
    .tp_basicsize = sizeof(Tiles),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = tiles_new,
    .tp_dealloc = (destructor)tiles_dealloc,
    .tp_methods = tiles_methods,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "dsascape.scheduler.in_c.tiles", .m_doc = "Tile search, compiled.", .m_size = -1,
};

PyMODINIT_FUNC PyInit_tiles(void) {
    if (PyType_Ready(&tiles_type) < 0) return NULL;
    PyObject *found = module_of(&module);
    if (found && PyModule_AddObjectRef(found, "Tiles", (PyObject *)&tiles_type) < 0) Py_CLEAR(found);
    return found;
}
