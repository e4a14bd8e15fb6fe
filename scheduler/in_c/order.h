/* The order in which instructions begin: scheduler/list_scheduling.py, on columns of numbers. */

typedef struct { int64_t key; int position; } Entry;
typedef struct { Entry *entries; int count; } Heap;

static int is_before(Entry one, Entry other) {
    return one.key < other.key || (one.key == other.key && one.position < other.position);
}

static void push(Heap *heap, Entry entry) {
    int place = heap->count++;
    for (; place && is_before(entry, heap->entries[(place - 1) / 2]); place = (place - 1) / 2)
        heap->entries[place] = heap->entries[(place - 1) / 2];
    heap->entries[place] = entry;
}

static Entry pop(Heap *heap) {
    Entry first = heap->entries[0], last = heap->entries[--heap->count];
    int place = 0;
    for (int child; (child = 2 * place + 1) < heap->count; place = child) {
        child += child + 1 < heap->count && is_before(heap->entries[child + 1], heap->entries[child]);
        if (!is_before(heap->entries[child], last)) break;
        heap->entries[place] = heap->entries[child];
    }
    heap->entries[place] = last;
    return first;
}

/* A unit's instructions whose turn may come: those that wait for a moment, by that, and the others by urgency. */
typedef struct { Heap later, ready; int64_t free_ps, starts_ps; int count; } Queue;

typedef struct {
    int count, units, edges;
    int *unit, *layer, *waiting, *order;
    char *is_transfer;
    int64_t *duration_ps, *whole_ps, *rest_ps, *earliest_ps;
    int *first_follower, *next_edge, *follower; /* edges of an instruction, as a chain */
    char *is_of_begin;
    int edge_room;
    Queue *queues;
    Entry *entries;
} Order;

static int add_edge(Order *o, long before, int follower, int is_of_begin) {
    if (before < 0 || before >= o->count) {
        PyErr_SetString(PyExc_ValueError, "waits for what is not there");
        return -1;
    }
    if (o->edges == o->edge_room) {
        if (o->edge_room > INT_MAX / 4) { PyErr_SetString(PyExc_OverflowError, "too many wait"); return -1; }
        int room = 2 * o->edge_room + 64;
        int *next = realloc(o->next_edge, (size_t)room * sizeof(int));
        if (next) o->next_edge = next;
        int *followers = next ? realloc(o->follower, (size_t)room * sizeof(int)) : NULL;
        if (followers) o->follower = followers;
        char *of_begin = followers ? realloc(o->is_of_begin, (size_t)room) : NULL;
        if (!of_begin) { PyErr_NoMemory(); return -1; }
        o->is_of_begin = of_begin;
        o->edge_room = room;
    }
    o->follower[o->edges] = follower;
    o->is_of_begin[o->edges] = (char)is_of_begin;
    o->next_edge[o->edges] = o->first_follower[before];
    o->first_follower[before] = o->edges++;
    o->waiting[follower]++;
    return 0;
}

static int add_edges(Order *o, PyObject *befores, int follower, int is_of_begin) {
    if (!PyTuple_Check(befores)) { PyErr_SetString(PyExc_TypeError, "not a tuple"); return -1; }
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(befores); n++) {
        long before = PyLong_AsLong(PyTuple_GET_ITEM(befores, n));
        if ((before == -1 && PyErr_Occurred()) || add_edge(o, before, follower, is_of_begin)) return -1;
    }
    return 0;
}

static int holds(PyObject *row, long number) {
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(row); n++)
        if (PyLong_AsLong(PyTuple_GET_ITEM(row, n)) == number) return 1;
    return 0;
}

/* Let an instruction come behind those that allocate what it frees, as far as it does not wait for them anyway. */
static int add_behind(Order *o, PyObject *after, PyObject *frees, PyObject *allocated_by, int follower) {
    if (!PyTuple_Check(frees)) { PyErr_SetString(PyExc_TypeError, "not a tuple"); return -1; }
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(frees); n++) {
        long buffer = PyLong_AsLong(PyTuple_GET_ITEM(frees, n));
        if (buffer == -1 && PyErr_Occurred()) return -1;
        long allocator = 0 <= buffer && buffer < PyTuple_GET_SIZE(allocated_by)
            ? PyLong_AsLong(PyTuple_GET_ITEM(allocated_by, buffer)) : -1;
        if (allocator < 0 || allocator >= o->count) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such buffer, or nobody allocates it");
            return -1;
        }
        int is_new = allocator != follower && !holds(after, allocator);
        for (int edge = o->edges - 1; is_new && edge >= 0 && o->follower[edge] == follower; edge--)
            is_new = o->first_follower[allocator] != edge; /* one that has just been added is the first of its chain */
        if (is_new && add_edge(o, allocator, follower, 1)) return -1;
    }
    return 0;
}

/* Let instructions of one layer on one unit follow each other: transfers begin, others end one before the other. */
static int add_chains(Order *o) {
    int *last_of_unit = malloc((size_t)(o->units ? o->units : 1) * sizeof(int)), failed = !last_of_unit;
    if (failed) PyErr_NoMemory();
    for (int n = 0; !failed && n < o->units; n++) last_of_unit[n] = -1;
    /* layers come one after the other: what is last on a unit is of this layer or of an earlier one */
    for (int n = 0; !failed && n < o->count; n++) {
        if (n && o->layer[n] < o->layer[n - 1]) {
            PyErr_SetString(PyExc_OverflowError, "layers do not follow each other");
            failed = -1;
            break;
        }
        int before = last_of_unit[o->unit[n]];
        if (before >= 0 && o->layer[before] == o->layer[n]) failed = add_edge(o, before, n, o->is_transfer[n]);
        last_of_unit[o->unit[n]] = n;
    }
    free(last_of_unit);
    return failed ? -1 : 0;
}

static int64_t added(int64_t one, int64_t other) {
    int64_t sum;
    if (__builtin_add_overflow(one, other, &sum) || sum == INT64_MAX) { /* that is: never */
        PyErr_SetString(PyExc_OverflowError, "too late");
        return 0;
    }
    return sum;
}

static int find_rest_ps(Order *o) {
    for (int n = o->count - 1; n >= 0; n--) {
        int64_t behind_ps = 0, beside_ps = 0;
        for (int edge = o->first_follower[n]; edge >= 0; edge = o->next_edge[edge]) {
            int follower = o->follower[edge];
            if (follower <= n) { PyErr_SetString(PyExc_OverflowError, "waits for what comes later"); return -1; }
            int64_t *longest_ps = o->is_of_begin[edge] ? &beside_ps : &behind_ps;
            if (o->rest_ps[follower] > *longest_ps) *longest_ps = o->rest_ps[follower];
        }
        behind_ps = added(behind_ps, o->whole_ps[n]);
        o->rest_ps[n] = behind_ps > beside_ps ? behind_ps : beside_ps;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static void wait_until(Order *o, int position, int64_t earliest_ps) {
    Queue *queue = &o->queues[o->unit[position]];
    push(&queue->later, (Entry){earliest_ps, position});
    int64_t start_ps = queue->free_ps > earliest_ps ? queue->free_ps : earliest_ps;
    if (start_ps < queue->starts_ps) queue->starts_ps = start_ps;
}

static int next_of(Order *o, Queue *queue, int64_t start_ps) {
    while (queue->later.count && queue->later.entries[0].key <= start_ps) {
        int position = pop(&queue->later).position;
        push(&queue->ready, (Entry){o->is_transfer[position] ? o->layer[position] : -o->rest_ps[position], position});
    }
    return pop(&queue->ready).position;
}

static int run_order(Order *o) {
    for (int n = 0, at = 0; n < o->units; n++) {
        Queue *queue = &o->queues[n];
        queue->starts_ps = INT64_MAX;
        queue->later.entries = o->entries + at;
        queue->ready.entries = o->entries + at + queue->count;
        at += 2 * queue->count;
    }
    for (int n = 0; n < o->count; n++) if (!o->waiting[n]) wait_until(o, n, 0);
    for (int done = 0; done < o->count; done++) {
        Queue *queue = &o->queues[0];
        for (int n = 1; n < o->units; n++) if (o->queues[n].starts_ps < queue->starts_ps) queue = &o->queues[n];
        int64_t start_ps = queue->starts_ps;
        if (start_ps == INT64_MAX) { PyErr_SetString(PyExc_ValueError, "all wait for each other"); return -1; }
        int position = o->order[done] = next_of(o, queue, start_ps);
        int64_t free_ps = queue->free_ps = added(start_ps, o->duration_ps[position]);
        queue->starts_ps = queue->ready.count ? free_ps : INT64_MAX;
        if (!queue->ready.count && queue->later.count) {
            int64_t earliest_ps = queue->later.entries[0].key;
            queue->starts_ps = earliest_ps > free_ps ? earliest_ps : free_ps;
        }
        int64_t end_ps = added(start_ps, o->whole_ps[position]);
        for (int edge = o->first_follower[position]; edge >= 0; edge = o->next_edge[edge]) {
            int follower = o->follower[edge];
            int64_t time_ps = o->is_of_begin[edge] ? start_ps : end_ps;
            if (time_ps > o->earliest_ps[follower]) o->earliest_ps[follower] = time_ps;
            if (!--o->waiting[follower]) wait_until(o, follower, o->earliest_ps[follower]);
        }
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

typedef struct { int unit; int64_t keeps_ps, whole_ps; int is_transfer; } WorkTime;

/* Read the works that differ: unit, how long that is kept, time to the end, whether data is moved. */
static WorkTime *read_works(PyObject *rows) {
    Py_ssize_t count = PyTuple_GET_SIZE(rows);
    WorkTime *works = calloc((size_t)(count ? count : 1), sizeof(WorkTime));
    if (!works) PyErr_NoMemory();
    for (Py_ssize_t n = 0; works && n < count; n++) {
        PyObject *row = PyTuple_GET_ITEM(rows, n);
        long long keeps_ps = 0, ends_ps = 0;
        if (!PyTuple_Check(row)) PyErr_SetString(PyExc_TypeError, "a work is not a tuple");
        else if (PyArg_ParseTuple(row, "iLLp", &works[n].unit, &keeps_ps, &ends_ps, &works[n].is_transfer)
                 && (works[n].unit < 0 || works[n].unit >= count || keeps_ps < 0))
            PyErr_SetString(PyExc_OverflowError, "units have other numbers, or a time is out of range");
        works[n].keeps_ps = keeps_ps;
        works[n].whole_ps = ends_ps > keeps_ps ? ends_ps : keeps_ps;
        if (PyErr_Occurred()) { free(works); works = NULL; }
    }
    return works;
}

/* Read which work each instruction does; give units numbers in the order in which they come first. */
static int read_times(Order *o, PyObject *rows, PyObject *work_of) {
    Py_ssize_t count = PyTuple_GET_SIZE(rows);
    WorkTime *works = read_works(rows);
    int *number_of = works ? malloc((size_t)(count ? count : 1) * sizeof(int)) : NULL, failed = !number_of;
    if (works && !number_of) PyErr_NoMemory();
    for (Py_ssize_t n = 0; !failed && n < count; n++) number_of[n] = -1;
    for (int n = 0; !failed && n < o->count; n++) {
        long number = PyLong_AsLong(PyTuple_GET_ITEM(work_of, n));
        if (number < 0 || number >= count) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such work");
            failed = 1;
            break;
        }
        WorkTime work = works[number];
        if (number_of[work.unit] < 0) number_of[work.unit] = o->units++;
        o->unit[n] = number_of[work.unit];
        o->duration_ps[n] = work.keeps_ps;
        o->whole_ps[n] = work.whole_ps;
        o->is_transfer[n] = (char)work.is_transfer;
    }
    free(number_of);
    free(works);
    return failed ? -1 : 0;
}

static int read_order(Order *o, PyObject *columns[6]) {
    PyObject *layers = columns[2], *after = columns[3], *frees = columns[4], *allocated_by = columns[5];
    size_t n = (size_t)(o->count ? o->count : 1);
    o->unit = malloc(n * sizeof(int)); o->layer = malloc(n * sizeof(int)); o->waiting = calloc(n, sizeof(int));
    o->order = malloc(n * sizeof(int)); o->is_transfer = malloc(n); o->duration_ps = malloc(n * sizeof(int64_t));
    o->whole_ps = malloc(n * sizeof(int64_t)); o->rest_ps = malloc(n * sizeof(int64_t));
    o->earliest_ps = calloc(n, sizeof(int64_t)); o->first_follower = malloc(n * sizeof(int));
    o->entries = malloc(2 * n * sizeof(Entry));
    if (!o->unit || !o->layer || !o->waiting || !o->order || !o->is_transfer || !o->duration_ps || !o->whole_ps
        || !o->rest_ps || !o->earliest_ps || !o->first_follower || !o->entries) { PyErr_NoMemory(); return -1; }
    for (int place = 0; place < o->count; place++) {
        o->first_follower[place] = -1;
        long layer = PyLong_AsLong(PyTuple_GET_ITEM(layers, place));
        if (layer == -1 && PyErr_Occurred()) return -1;
        if (layer < INT_MIN || layer > INT_MAX) {
            PyErr_SetString(PyExc_OverflowError, "a layer is out of range");
            return -1;
        }
        o->layer[place] = (int)layer;
    }
    if (read_times(o, columns[0], columns[1])) return -1;
    if (!(o->queues = calloc((size_t)(o->units ? o->units : 1), sizeof(Queue)))) { PyErr_NoMemory(); return -1; }
    for (int place = 0; place < o->count; place++) {
        o->queues[o->unit[place]].count++;
        if (add_edges(o, PyTuple_GET_ITEM(after, place), place, 0)) return -1;
    }
    for (int place = 0; place < o->count; place++) {
        PyObject *waits = PyTuple_GET_ITEM(after, place), *freed = PyTuple_GET_ITEM(frees, place);
        if (add_behind(o, waits, freed, allocated_by, place)) return -1;
    }
    return add_chains(o);
}

PyDoc_STRVAR(begin_order_doc,
    "begin_order(works, work_of, layers, after, frees, allocated_by)\n--\n\n"
    "Return positions in the order in which they begin: `scheduler.list_scheduling.begin_order`.");

static PyObject *columns_begin_order(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *columns[6] = {NULL}, *found = NULL;
    if (PyTuple_GET_SIZE(args) != 6) { PyErr_SetString(PyExc_TypeError, "needs six columns"); return NULL; }
    Order o = {0};
    int failed = 0;
    for (int n = 0; !failed && n < 6; n++) {
        PyObject *column = PyTuple_GET_ITEM(args, n);
        if (!PyList_Check(column)) PyErr_SetString(PyExc_TypeError, "not a list");
        else columns[n] = PyList_AsTuple(column);
        failed = !columns[n];
    }
    for (int n = 2; !failed && n < 5; n++) { /* one entry for each instruction */
        failed = PyTuple_GET_SIZE(columns[n]) != PyTuple_GET_SIZE(columns[1]);
        if (failed) PyErr_SetString(PyExc_ValueError, "columns differ in length");
    }
    if (!failed && PyTuple_GET_SIZE(columns[1]) > INT_MAX / 4) {
        PyErr_SetString(PyExc_OverflowError, "too many instructions");
        failed = 1;
    }
    if (!failed) o.count = (int)PyTuple_GET_SIZE(columns[1]);
    if (!failed && !read_order(&o, columns) && !find_rest_ps(&o) && !run_order(&o)) found = PyList_New(o.count);
    for (int n = 0; found && n < o.count; n++) {
        PyObject *position = PyLong_FromLong(o.order[n]);
        if (!position) Py_CLEAR(found);
        else PyList_SET_ITEM(found, n, position);
    }
    void *all[] = {o.unit, o.layer, o.waiting, o.order, o.is_transfer, o.duration_ps, o.whole_ps, o.rest_ps,
                   o.earliest_ps, o.first_follower, o.next_edge, o.follower, o.is_of_begin, o.queues, o.entries};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
    for (int n = 0; n < 6; n++) Py_XDECREF(columns[n]);
    return found;
}
