/* The simulation's event handlers, compiled: instructions on servers and pipelined servers, allocation, and shared
 * bandwidth. SimPy's clock advances from one timestamp ("instant") to the next (hw_models/simulation/clock.py).
 *
 * This is a port of running.py, units.py, pipelining.py, space.py and bandwidth.py in hw_models/simulation, with the
 * same order of events and the same rounding, on plain numbers that compiled_engine.py derives from a program and a
 * machine; it is independent of the kinds of instructions and machines. Most functions have the names of the methods
 * they port. Any failure ends the run: a limit that is exceeded with ArithmeticError, a mistake of the program with
 * RuntimeError.
 *
 * This file is the interface to Python. The rest is in these files, each of which needs those before it:
 */
#include "records.h"
#include "instants.h"
#include "memories.h"
#include "workers.h"
#include "reading.h"
#include "module.h"

/* ---- a run ---- */

/* Set the exception for a failed run; return -1. */
static int raise_failure(const Handler *h) {
    PyErr_SetString(h->is_mistake ? PyExc_RuntimeError : PyExc_ArithmeticError, h->failure);
    return -1;
}

/* Return a new handler, fully initialised: it is not subclassed and has no __init__ that could run again. */
static PyObject *handler_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Handler *h = (Handler *)type->tp_alloc(type, 0);
    if (!h) return NULL;
    int failed = read_arguments(h, args, kwargs);
    for (int w = 0; !failed && w < h->n_workers; w++) take(h, w);
    if (!failed && h->failure) failed = raise_failure(h);
    if (failed) Py_CLEAR(h);
    return (PyObject *)h;
}

PyDoc_STRVAR(happen_doc,
    "happen()\n--\n\n"
    "Handle all events of the next timestamp, the first at 0 ps; return the picoseconds to the following one, or -1\n"
    "if no event is pending.");

static PyObject *handler_happen(Handler *h, PyObject *Py_UNUSED(none)) {
    if (h->now < 0 && h->n_coming) {
        h->now_ps = first_coming(h);
        h->now = pop_instant(h, h->now_ps);
    }
    if (h->now < 0) { PyErr_SetString(PyExc_RuntimeError, "nothing is to come"); return NULL; }
    happen(h);
    if (h->failure) { raise_failure(h); return NULL; }
    return PyLong_FromLongLong(h->n_coming ? h->coming_ps[0] - h->now_ps : -1);
}

static void handler_dealloc(Handler *h) {
    for (int n = 0; h->flows && n < h->n_flows; n++) free(h->flows[n].paced_ps);
    for (int n = 0; h->queues && n < h->n_queues; n++) free(h->queues[n].positions);
    for (int n = 0; h->workers && n < h->n_workers; n++) {
        free(h->workers[n].backlog);
        free(h->workers[n].free_since_ps);
    }
    for (int n = 0; h->ports && n < h->n_ports; n++) {
        free(h->ports[n].new.wishes);
        free(h->ports[n].waiting.wishes);
        free(h->ports[n].history);
    }
    for (int n = 0; n < h->n_instants; n++) free(h->instants[n].turns);
    void *all[] = {h->work_of, h->after.first, h->after.items, h->allocates.first, h->allocates.items, h->frees.first,
                   h->frees.items, h->works, h->demands, h->loads, h->queues, h->ports, h->workers, h->space_of,
                   h->spaces.first, h->spaces.items, h->space_bytes, h->holders, h->allocators, h->first_flow,
                   h->issued_ps, h->start_ps, h->end_ps, h->startup_ps, h->released_by, h->limits, h->blocked_head,
                   h->blocked_next, h->blocked_place, h->blocked_worker, h->parts_left, h->flows, h->running,
                   h->changed, h->waited_ps, h->waited_order, h->instants, h->buckets, h->coming_ps};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
    Py_TYPE(h)->tp_free((PyObject *)h);
}

/* ---- results ---- */

static PyObject *times(const int64_t *times_ps, int count) {
    return PyObject_CallFunction(array_type, "sy#", "q", (const char *)times_ps, (Py_ssize_t)sizeof(int64_t) * count);
}

static PyObject *numbers(int *items, int count) { return column_of(&(Made){items, count, count}); }

PyDoc_STRVAR(columns_doc,
    "columns()\n--\n\n"
    "Return one column each, by instruction: issued_ps, start_ps, end_ps, startup_ps, released_by, limits.");

static PyObject *handler_columns(Handler *h, PyObject *Py_UNUSED(none)) {
    return Py_BuildValue("(NNNNNN)", times(h->issued_ps, h->count), times(h->start_ps, h->count),
                         times(h->end_ps, h->count), times(h->startup_ps, h->count),
                         numbers(h->released_by, h->count), numbers(h->limits, h->count));
}

PyDoc_STRVAR(memories_doc,
    "memories()\n--\n\n"
    "Return by port: moved_bytes, peak used_bytes, was_short, and {time of change in ps: used_bytes}.");

static PyObject *handler_memories(Handler *h, PyObject *Py_UNUSED(none)) {
    PyObject *found = PyList_New(h->n_ports);
    for (int p = 0; found && p < h->n_ports; p++) {
        const Port *port = &h->ports[p];
        PyObject *changes = PyDict_New();
        int64_t peak_bytes = 0, before_bytes = 0;
        for (int n = 0; changes && n < port->history_count; n++) {
            Change at = port->history[n];
            if (at.used_bytes != before_bytes) {
                PyObject *time_ps = PyLong_FromLongLong(at.time_ps), *used = PyLong_FromLongLong(at.used_bytes);
                if (!time_ps || !used || PyDict_SetItem(changes, time_ps, used)) Py_CLEAR(changes);
                Py_XDECREF(time_ps);
                Py_XDECREF(used);
            }
            if (at.used_bytes > peak_bytes) peak_bytes = at.used_bytes;
            before_bytes = at.used_bytes;
        }
        PyObject *row = changes ? Py_BuildValue("(dLNN)", port->moved_bytes, (long long)peak_bytes,
                                                PyBool_FromLong(port->was_short), changes) : NULL;
        if (!row) Py_CLEAR(found);
        else PyList_SET_ITEM(found, p, row);
    }
    return found;
}

PyDoc_STRVAR(units_doc,
    "units()\n--\n\n"
    "Return [(kind, busy_ps)] by worker, and [(kind, kind it waited for, ps)] in order of first occurrence.");

static PyObject *handler_units(Handler *h, PyObject *Py_UNUSED(none)) {
    PyObject *busy = PyList_New(h->n_workers), *waited = PyList_New(h->n_waited);
    for (int w = 0; busy && w < h->n_workers; w++) {
        PyObject *row = Py_BuildValue("(iL)", h->workers[w].kind, (long long)h->workers[w].busy_ps);
        if (!row) Py_CLEAR(busy);
        else PyList_SET_ITEM(busy, w, row);
    }
    for (int n = 0; waited && n < h->n_waited; n++) {
        int place = h->waited_order[n];
        PyObject *row = Py_BuildValue("(iiL)", place / (h->n_kinds + 1), place % (h->n_kinds + 1),
                                      (long long)h->waited_ps[place]);
        if (!row) Py_CLEAR(waited);
        else PyList_SET_ITEM(waited, n, row);
    }
    return Py_BuildValue("(NN)", busy, waited);
}

static PyObject *handler_events(Handler *h, void *Py_UNUSED(none)) { return PyLong_FromLongLong(h->events); }
static PyObject *handler_unfinished(Handler *h, void *Py_UNUSED(none)) { return PyLong_FromLong(h->unfinished); }

static PyMethodDef handler_methods[] = {
    {"happen", (PyCFunction)handler_happen, METH_NOARGS, happen_doc},
    {"columns", (PyCFunction)handler_columns, METH_NOARGS, columns_doc},
    {"memories", (PyCFunction)handler_memories, METH_NOARGS, memories_doc},
    {"units", (PyCFunction)handler_units, METH_NOARGS, units_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef handler_figures[] = {
    {"events", (getter)handler_events, NULL, "Number of events handled so far.", NULL},
    {"unfinished", (getter)handler_unfinished, NULL, "Number of instructions that have not ended.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject handler_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dsascape.hw_models.in_c.handler.Handler",
    .tp_doc = "Run of a program's bound work; its constructor starts every unit on its first instructions.",
    .tp_basicsize = sizeof(Handler),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = handler_new,
    .tp_dealloc = (destructor)handler_dealloc,
    .tp_methods = handler_methods,
    .tp_getset = handler_figures,
};

/* ---- the module ---- */

PyDoc_STRVAR(is_sound_doc,
    "is_sound(after, allocates, frees, buffers)\n--\n\n"
    "Return whether instructions wait only for earlier ones, and every buffer is allocated once, before it is freed.");

static PyObject *handler_is_sound(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *after_of, *allocates, *frees;
    int buffers;
    if (!PyArg_ParseTuple(args, "OOOi", &after_of, &allocates, &frees, &buffers)) return NULL;
    Rows waits = {0}, taken = {0}, freed = {0};
    int count = read_rows(after_of, MOST_ROWS, &waits);
    char *is_allocated = made(buffers, 1);
    int is_sound = count >= 0 && is_allocated && read_rows(allocates, buffers, &taken) == count
        && read_rows(frees, buffers, &freed) == count;
    for (int position = 0; is_sound && position < count; position++) {
        for (int n = waits.first[position]; n < waits.first[position + 1]; n++) is_sound &= waits.items[n] < position;
        for (int n = taken.first[position]; n < taken.first[position + 1]; n++) {
            is_sound &= !is_allocated[taken.items[n]];
            is_allocated[taken.items[n]] = 1;
        }
        for (int n = freed.first[position]; n < freed.first[position + 1]; n++)
            is_sound &= is_allocated[freed.items[n]];
    }
    void *all[] = {waits.first, waits.items, taken.first, taken.items, freed.first, freed.items, is_allocated};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
    if (PyErr_Occurred()) { /* a number out of range means that the program is not sound either */
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_OverflowError)) return NULL;
        PyErr_Clear();
    }
    return PyBool_FromLong(is_sound);
}

PyDoc_STRVAR(spaces_asked_doc,
    "spaces_asked(allocates, work_of, which)\n--\n\n"
    "Return the distinct pairs (kind of buffer, kind of work that allocates it) in order of first occurrence, and the\n"
    "index of its pair for every buffer. ``which``: kind of each buffer.");

static PyObject *handler_spaces_asked(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given_allocates, *given_work_of, *given_which;
    int count = 0, buffers = 0, kinds = 0, pairs = 0;
    if (!PyArg_ParseTuple(args, "OOO", &given_allocates, &given_work_of, &given_which)) return NULL;
    int *which = read_column(given_which, 0, MOST_ROWS, &buffers), *work_of = NULL;
    int *first = NULL, *next = NULL, *work_in = NULL; /* linked list of pairs per kind of buffer; the work of each */
    for (int n = 0; which && n < buffers; n++) if (which[n] >= kinds) kinds = which[n] + 1;
    Rows taken = {0};
    Made pair_of = {0};
    PyObject *listed = NULL, *made_column = NULL;
    int failed = !which || !(work_of = read_column(given_work_of, 0, MOST_ROWS, &count))
        || read_rows(given_allocates, buffers, &taken) != count || reserve(&pair_of, buffers)
        || !(first = filled(kinds, NOBODY)) || !(next = filled(buffers, NOBODY))
        || !(work_in = made(buffers, sizeof(int))) || !(listed = PyList_New(0));
    for (int n = 0; !failed && n < buffers; n++) pair_of.items[n] = NOBODY;
    for (int position = 0; !failed && position < count; position++)
        for (int n = taken.first[position]; !failed && n < taken.first[position + 1]; n++) {
            int buffer = taken.items[n], kind = which[buffer], pair = first[kind];
            if (pair_of.items[buffer] != NOBODY) { /* this also bounds the number of pairs by that of buffers */
                PyErr_SetString(PyExc_ValueError, "a buffer is allocated twice");
                failed = -1;
                break;
            }
            while (pair != NOBODY && work_in[pair] != work_of[position]) pair = next[pair];
            if (pair == NOBODY) {
                PyObject *both = Py_BuildValue("(ii)", kind, work_of[position]);
                failed = !both || PyList_Append(listed, both);
                Py_XDECREF(both);
                pair = pairs++;
                work_in[pair] = work_of[position];
                next[pair] = first[kind];
                first[kind] = pair;
            }
            pair_of.items[buffer] = pair;
        }
    pair_of.count = buffers;
    if (!failed) made_column = column_of(&pair_of);
    else if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "columns differ in length");
    void *all[] = {which, work_of, first, next, work_in, taken.first, taken.items, pair_of.items};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
    if (made_column) return Py_BuildValue("(NN)", listed, made_column);
    Py_XDECREF(listed);
    return NULL;
}

static PyMethodDef functions[] = {
    {"spaces_asked", handler_spaces_asked, METH_VARARGS, spaces_asked_doc},
    {"is_sound", handler_is_sound, METH_VARARGS, is_sound_doc},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "dsascape.hw_models.in_c.handler",
    .m_doc = "Event handlers of the simulation, compiled.", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit_handler(void) {
    if (PyType_Ready(&handler_type) < 0) return NULL;
    PyObject *found = import_array_type() ? NULL : module_of(&module);
    if (found && PyModule_AddObjectRef(found, "Handler", (PyObject *)&handler_type) < 0) Py_CLEAR(found);
    return found;
}
