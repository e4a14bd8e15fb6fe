/* The estimate of a layer's time, compiled: called as the method of scheduler/dsa/tiling/estimate.py that it stands
 * for, it returns the same, rounding by rounding. Numbers from 2^53 on, which floating point may not hold, are left to
 * that.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../hw_models/in_c/module.h"

#define MOST 9007199254740992.0

/* Return a number; one that is none or too large sets an exception. */
static double number(PyObject *given) {
    double found = PyFloat_CheckExact(given) ? PyFloat_AS_DOUBLE(given) : PyFloat_AsDouble(given);
    if (!(found < MOST && found > -MOST) && !PyErr_Occurred())
        PyErr_SetString(PyExc_OverflowError, "beyond what floating point holds");
    return found;
}

/* Read a row of `count` numbers; return 0, or -1 with an exception set. */
static int read_numbers(PyObject *row, double *found, Py_ssize_t count) {
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != count) {
        PyErr_SetString(PyExc_TypeError, "not a row of as many numbers");
        return -1;
    }
    for (Py_ssize_t n = 0; n < count; n++) found[n] = number(PyTuple_GET_ITEM(row, n));
    return PyErr_Occurred() ? -1 : 0;
}

typedef struct { double bytes_per_ps, burst_bytes, startup_ps, at_once; } Dma;

static double moving_ps(const Dma *dma, double size_bytes, double transfers) {
    double alone_ps = size_bytes / dma->bytes_per_ps;
    double shared_ps = (alone_ps + transfers * dma->startup_ps) / dma->at_once;
    return alone_ps > shared_ps ? alone_ps : shared_ps;
}

static double larger(double one, double other) { return one > other ? one : other; }
static double smaller(double one, double other) { return one < other ? one : other; }

/* Return how often the DMA starts up for loads, those of a burst counted as parts. */
static double starts_of(PyObject *loads, const Dma *dma) {
    double starts = 0.0;
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(loads); n++) {
        double each[2];
        if (read_numbers(PyTuple_GET_ITEM(loads, n), each, 2)) return 0.0;
        if (each[0] != 0.0) starts += larger(each[0] / dma->burst_bytes, 1.0);
        else starts = larger(each[1], starts);
    }
    return starts;
}

/* Return the time of the first tile's loads. */
static double first_ps_of(PyObject *first, const Dma *dma, double prefetch_bytes) {
    double found_ps = 0.0;
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(first); n++) {
        double each[4]; /* on_chip_ps, ddr_bytes, held_bytes, staged_bytes */
        if (read_numbers(PyTuple_GET_ITEM(first, n), each, 4)) return 0.0;
        double loaded_bytes = each[3] != 0.0 ? smaller(larger(each[1], dma->burst_bytes), each[3]) : each[1];
        double alone_ps = loaded_bytes != 0.0 ? loaded_bytes / dma->bytes_per_ps : each[0];
        double held_bytes = 2 * each[2];
        found_ps += held_bytes != 0.0 && held_bytes < prefetch_bytes
            ? alone_ps * (held_bytes / prefetch_bytes) : alone_ps;
    }
    return found_ps;
}

static PyObject *in_c(PyObject *stages, PyObject *given_dma, double prefetch_bytes, double hidden_cost) {
    double rates[4], own[12] = {0};
    if (read_numbers(given_dma, rates, 4)) return NULL;
    enum { PASSES, DDR_BYTES, DDR_LOADS, TILES, STORED_BYTES, PATH, BROADCAST, COMPUTING, FIRST, STARTS, TILE, LAST };
    if (PyTuple_GET_SIZE(stages) != 12) { PyErr_SetString(PyExc_TypeError, "not the stages of a layer"); return NULL; }
    for (int n = 0; n < 12; n++) {
        PyObject *item = PyTuple_GET_ITEM(stages, n);
        if (n != DDR_LOADS && n != COMPUTING && n != FIRST) own[n] = number(item);
        else if (!PyTuple_Check(item)) PyErr_SetString(PyExc_TypeError, "not a tuple");
    }
    Dma dma = {rates[0], rates[1], rates[2], rates[3]};
    int is_wrong = own[PASSES] < 1.0 || dma.bytes_per_ps <= 0.0 || dma.burst_bytes <= 0.0 || dma.at_once < 1.0;
    if (is_wrong && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "no passes, or a DMA that moves nothing");
    if (PyErr_Occurred()) return NULL;
    PyObject *computing = PyTuple_GET_ITEM(stages, COMPUTING);
    double starts = starts_of(PyTuple_GET_ITEM(stages, DDR_LOADS), &dma);
    double load_ps = moving_ps(&dma, own[DDR_BYTES], larger(starts - 1, 0.0)), store_ps = 0.0, last_ps = own[LAST];
    if (own[TILES] != 0.0) {
        double bursts = larger(smaller(own[TILES], own[STORED_BYTES] / dma.burst_bytes), 1.0);
        store_ps = moving_ps(&dma, own[STORED_BYTES], bursts - 1);
        last_ps += own[STORED_BYTES] / bursts / dma.bytes_per_ps + dma.startup_ps;
    }
    double slowest_ps = larger(larger(load_ps, store_ps), larger(own[PATH], own[BROADCAST]));
    double together_ps = load_ps + store_ps + own[PATH] + own[BROADCAST];
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(computing); n++) {
        double each_ps = number(PyTuple_GET_ITEM(computing, n));
        slowest_ps = larger(slowest_ps, each_ps);
        together_ps += each_ps;
    }
    slowest_ps = larger(slowest_ps, (own[DDR_BYTES] + own[STORED_BYTES]) / dma.bytes_per_ps);
    double paced_ps = slowest_ps * (1 - 1 / own[PASSES]) + hidden_cost * (together_ps - slowest_ps);
    double first_ps = first_ps_of(PyTuple_GET_ITEM(stages, FIRST), &dma, prefetch_bytes);
    if (PyErr_Occurred()) return NULL;
    double startup_ps = starts != 0.0 ? dma.startup_ps : 0.0;
    return PyFloat_FromDouble(paced_ps + (first_ps + own[STARTS] + startup_ps) + (own[TILE] + last_ps));
}

PyDoc_STRVAR(estimate_ps_doc,
    "estimate_ps(stages, dma, prefetch_bytes, hidden_cost)\n--\n\n"
    "Return a layer's estimated time: `scheduler.dsa.tiling.estimate.Stages.estimate_ps`.");

static PyObject *estimate_ps(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *stages, *dma, *found;
    double prefetch_bytes, hidden_cost;
    if (!PyArg_ParseTuple(args, "O!O!dd", &PyTuple_Type, &stages, &PyTuple_Type, &dma, &prefetch_bytes, &hidden_cost))
        return NULL;
    if ((found = in_c(stages, dma, prefetch_bytes, hidden_cost)) || !PyErr_ExceptionMatches(PyExc_OverflowError))
        return found;
    PyErr_Clear();
    PyObject *call[] = {stages, dma, PyTuple_GET_ITEM(args, 2), PyTuple_GET_ITEM(args, 3)};
    PyObject *name = PyUnicode_InternFromString("estimate_ps");
    if (name) found = PyObject_VectorcallMethod(name, call, 4, NULL);
    Py_XDECREF(name);
    return found;
}

static PyMethodDef functions[] = {{"estimate_ps", estimate_ps, METH_VARARGS, estimate_ps_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "scheduler.in_c.estimate", .m_doc = "The estimate of a layer's time, compiled.",
    .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit_estimate(void) {
    return module_of(&module);
}
