/* What happens in each instant of a simulation, compiled: bound work on servers and pipelined servers, space, shared
 * bandwidth. SimPy's clock goes from each instant to the next one (hw_models/simulation/clock.py).
 *
 * This does what hw_models/{running,units,pipelining,space,bandwidth}.py do, turn by turn and rounding by rounding, on
 * plain numbers that hw_models/simulation/compiled_run.py makes of a program and a machine: it knows no kind of instruction and no
 * kind of machine. Functions are called as the methods they stand for. What comes again in a program is not run again
 * (repeats.h), which shows in no figure. Whatever goes wrong ends the run; Python then does it again and says what.
 *
 * Here is what Python sees of it. The rest is in these files, each of which needs those before it:
 */
#include "records.h"
#include "instants.h"
#include "memories.h"
#include "workers.h"
#include "reading.h"
#include "repeats.h"
#include "module.h"

/* ---- a run ---- */

/* Return a new handler: there is none that is half made, or made twice. */
static PyObject *handler_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Handler *h = (Handler *)type->tp_alloc(type, 0);
    if (!h) return NULL;
    int failed = read_arguments(h, args, kwargs) || find_stretches(h);
    for (int w = 0; !failed && w < h->n_workers; w++) take(h, w);
    if (!failed && h->failure) {
        PyErr_SetString(PyExc_ArithmeticError, h->failure);
        failed = -1;
    }
    if (failed) Py_CLEAR(h);
    return (PyObject *)h;
}

PyDoc_STRVAR(happen_doc,
    "happen()\n--\n\nDo all that happens in the next instant, the first at 0 ps; return what passes until the one after it,\n"
    "or -1 if nothing is to come.");

static PyObject *handler_happen(Handler *h, PyObject *Py_UNUSED(none)) {
    if (h->now < 0 && h->n_coming) {
        h->now_ps = first_coming(h);
        h->now = pop_instant(h, h->now_ps);
    }
    if (h->now < 0) { PyErr_SetString(PyExc_RuntimeError, "nothing is to come"); return NULL; }
    happen(h);
    if (h->failure) { PyErr_SetString(PyExc_ArithmeticError, h->failure); return NULL; }
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
    free_stretches(h);
    void *all[] = {h->work_of, h->after.first, h->after.items, h->allocates.first, h->allocates.items, h->frees.first,
                   h->frees.items, h->works, h->demands, h->loads, h->queues, h->ports, h->workers, h->space_of,
                   h->spaces.first, h->spaces.items, h->space_bytes, h->holders, h->allocators, h->first_flow,
                   h->issued_ps, h->start_ps, h->end_ps, h->startup_ps, h->released_by, h->limits, h->blocked_head,
                   h->blocked_next, h->blocked_place, h->blocked_worker, h->parts_left, h->flows, h->running,
                   h->changed, h->waited_ps, h->waited_order, h->instants, h->buckets, h->coming_ps, h->stretches,
                   h->stretch_at, h->alike, h->key, h->named_in, h->name, h->ended};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
    Py_TYPE(h)->tp_free((PyObject *)h);
}

/* ---- what has come of it ---- */

static PyObject *times(const int64_t *times_ps, int count) {
    return PyObject_CallFunction(array_type, "sy#", "q", (const char *)times_ps, (Py_ssize_t)sizeof(int64_t) * count);
}

static PyObject *numbers(int *items, int count) { return column_of(&(Made){items, count, count}); }

PyDoc_STRVAR(columns_doc,
    "columns()\n--\n\nReturn by instruction: issued_ps, start_ps, end_ps, startup_ps, released_by, limits.");

static PyObject *handler_columns(Handler *h, PyObject *Py_UNUSED(none)) {
    return Py_BuildValue("(NNNNNN)", times(h->issued_ps, h->count), times(h->start_ps, h->count),
                         times(h->end_ps, h->count), times(h->startup_ps, h->count),
                         numbers(h->released_by, h->count), numbers(h->limits, h->count));
}

PyDoc_STRVAR(memories_doc,
    "memories()\n--\n\nReturn by port: moved_bytes, the most used_bytes, was_short, and used_bytes by time of change.");

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
    "units()\n--\n\nReturn (kind, busy_ps) of each worker, and (kind, what it waited for, ps) as that came to be.");

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
static PyObject *handler_repeated(Handler *h, void *Py_UNUSED(none)) { return PyLong_FromLong(h->repeated); }

static PyMethodDef handler_methods[] = {
    {"happen", (PyCFunction)handler_happen, METH_NOARGS, happen_doc},
    {"columns", (PyCFunction)handler_columns, METH_NOARGS, columns_doc},
    {"memories", (PyCFunction)handler_memories, METH_NOARGS, memories_doc},
    {"units", (PyCFunction)handler_units, METH_NOARGS, units_doc},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef handler_figures[] = {
    {"events", (getter)handler_events, NULL, "Turns taken so far.", NULL},
    {"repeated", (getter)handler_repeated, NULL, "Instructions that were not run, as others like them were.", NULL},
    {"unfinished", (getter)handler_unfinished, NULL, "Instructions that have not ended.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject handler_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dsascape.hw_models.in_c.handler.Handler",
    .tp_doc = "One run of a program's bound work; every unit takes its first instructions when it is made.",
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
    "Return whether instructions wait for earlier ones only, and buffers are freed after they are allocated, once.");

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
    if (PyErr_Occurred()) { /* a number that is out of range is a mistake as well */
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_OverflowError)) return NULL;
        PyErr_Clear();
    }
    return PyBool_FromLong(is_sound);
}

PyDoc_STRVAR(spaces_asked_doc,
    "spaces_asked(allocates, work_of, which)\n--\n\n"
    "Return pairs of ``which`` buffer and what work allocates one, as they first occur, and by buffer which pair.");

static PyObject *handler_spaces_asked(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given_allocates, *given_work_of, *given_which;
    int count = 0, buffers = 0, kinds = 0, pairs = 0;
    if (!PyArg_ParseTuple(args, "OOO", &given_allocates, &given_work_of, &given_which)) return NULL;
    int *which = read_column(given_which, 0, MOST_ROWS, &buffers), *work_of = NULL;
    int *first = NULL, *next = NULL, *work_in = NULL; /* pairs of a kind of buffer, as a chain; the work in each */
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
            if (pair_of.items[buffer] != NOBODY) { /* and there are no more pairs than buffers */
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
    PyModuleDef_HEAD_INIT, .m_name = "dsascape.hw_models.in_c.handler", .m_doc = "What happens in each instant, compiled.",
    .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit_handler(void) {
    if (PyType_Ready(&handler_type) < 0) return NULL;
    PyObject *found = import_array_type() ? NULL : module_of(&module);
    if (found && PyModule_AddObjectRef(found, "Handler", (PyObject *)&handler_type) < 0) Py_CLEAR(found);
    return found;
}
