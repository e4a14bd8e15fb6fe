/* List scheduling, the order in which instructions begin: a port of scheduler/programs/list_scheduling.py. */

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

/* A unit's instructions whose dependencies are scheduled: later ones by their earliest start, ready ones by urgency. */
typedef struct { Heap later, ready; int64_t free_ps, starts_ps; int count; } Queue;

typedef struct {
    int count, units, edges;
    const int *layer;
    int *unit, *waiting, *order;
    char *is_transfer;
    int64_t *duration_ps, *whole_ps, *rest_ps, *earliest_ps;
    int *first_follower, *next_edge, *follower; /* linked list of the edges from each instruction to its successors */
    char *is_of_begin;
    int edge_room;
    Queue *queues;
    Entry *entries;
} Order;

/* Arguments: columns and rows by instruction, and the allocating instruction by buffer. */
typedef struct { Lent work_of, layers, allocated_by; LentRows after, frees; } Given;

static int add_edge(Order *o, int before, int follower, int is_of_begin) {
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

static int holds(const LentRows *rows, int row, int number) {
    for (int n = rows->first.items[row]; n < rows->first.items[row + 1]; n++)
        if (rows->items.items[n] == number) return 1;
    return 0;
}

/* Order an instruction after those that allocate the buffers it frees, unless it waits for them already. */
static int add_behind(Order *o, const Given *given, int follower) {
    for (int n = given->frees.first.items[follower]; n < given->frees.first.items[follower + 1]; n++) {
        int allocator = given->allocated_by.items[given->frees.items.items[n]];
        int is_new = allocator != follower && !holds(&given->after, follower, allocator);
        for (int edge = o->edges - 1; is_new && edge >= 0 && o->follower[edge] == follower; edge--)
            is_new = o->first_follower[allocator] != edge; /* an edge just added is the first in its list */
        if (is_new && add_edge(o, allocator, follower, 1)) return -1;
    }
    return 0;
}

/* Keep the order of a layer's instructions on one unit: a transfer begins after its predecessor begins, any other
 * instruction after its predecessor ends.
 */
static int add_chains(Order *o) {
    int *last_of_unit = malloc((size_t)(o->units ? o->units : 1) * sizeof(int)), failed = !last_of_unit;
    if (failed) PyErr_NoMemory();
    for (int n = 0; !failed && n < o->units; n++) last_of_unit[n] = -1;
    /* layers are in order, so the last instruction on a unit belongs to this layer or to an earlier one */
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
    if (__builtin_add_overflow(one, other, &sum) || sum == INT64_MAX) { /* INT64_MAX stands for "never" */
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

/* Read the distinct works, each a tuple `WorkTime`; return NULL with an exception set. */
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

/* Read the work of each instruction; number the units in the order of their first instruction. */
static int read_times(Order *o, PyObject *rows, const Lent *work_of) {
    Py_ssize_t count = PyTuple_GET_SIZE(rows);
    if (check_range(work_of, 0, count < INT_MAX ? (int)count : INT_MAX)) return -1;
    WorkTime *works = read_works(rows);
    int *number_of = works ? malloc((size_t)(count ? count : 1) * sizeof(int)) : NULL;
    if (works && !number_of) PyErr_NoMemory();
    for (Py_ssize_t n = 0; number_of && n < count; n++) number_of[n] = -1;
    for (int n = 0; number_of && n < o->count; n++) {
        WorkTime work = works[work_of->items[n]];
        if (number_of[work.unit] < 0) number_of[work.unit] = o->units++;
        o->unit[n] = number_of[work.unit];
        o->duration_ps[n] = work.keeps_ps;
        o->whole_ps[n] = work.whole_ps;
        o->is_transfer[n] = (char)work.is_transfer;
    }
    int failed = !number_of;
    free(number_of);
    free(works);
    return failed ? -1 : 0;
}

static int read_order(Order *o, PyObject *works, const Given *given) {
    size_t n = (size_t)(o->count ? o->count : 1);
    o->layer = given->layers.items;
    o->unit = malloc(n * sizeof(int)); o->waiting = calloc(n, sizeof(int));
    o->order = malloc(n * sizeof(int)); o->is_transfer = malloc(n); o->duration_ps = malloc(n * sizeof(int64_t));
    o->whole_ps = malloc(n * sizeof(int64_t)); o->rest_ps = malloc(n * sizeof(int64_t));
    o->earliest_ps = calloc(n, sizeof(int64_t)); o->first_follower = malloc(n * sizeof(int));
    o->entries = malloc(2 * n * sizeof(Entry));
    if (!o->unit || !o->waiting || !o->order || !o->is_transfer || !o->duration_ps || !o->whole_ps || !o->rest_ps
        || !o->earliest_ps || !o->first_follower || !o->entries) { PyErr_NoMemory(); return -1; }
    for (int place = 0; place < o->count; place++) o->first_follower[place] = -1;
    if (read_times(o, works, &given->work_of)) return -1;
    if (!(o->queues = calloc((size_t)(o->units ? o->units : 1), sizeof(Queue)))) { PyErr_NoMemory(); return -1; }
    const int *first = given->after.first.items, *before = given->after.items.items;
    for (int place = 0; place < o->count; place++) {
        o->queues[o->unit[place]].count++;
        for (int at = first[place]; at < first[place + 1]; at++) if (add_edge(o, before[at], place, 0)) return -1;
    }
    for (int place = 0; place < o->count; place++) if (add_behind(o, given, place)) return -1;
    return add_chains(o);
}

/* Borrow the arguments; return 0, or -1 with an exception set. */
static int lend_all(PyObject *columns[7], Given *given) {
    if (lend(columns[0], &given->work_of) || lend(columns[1], &given->layers) || lend(columns[6], &given->allocated_by))
        return -1;
    int count = given->work_of.count, buffers = given->allocated_by.count;
    if (check_range(&given->allocated_by, 0, count) || lend_rows(columns[2], columns[3], 0, count, &given->after)
        || lend_rows(columns[4], columns[5], 0, buffers, &given->frees)) return -1;
    if (given->layers.count == count && given->after.count == count && given->frees.count == count) return 0;
    PyErr_SetString(PyExc_ValueError, "columns differ in length");
    return -1;
}

PyDoc_STRVAR(begin_order_doc,
    "begin_order(works, work_of, layers, after_first, after_items, frees_first, frees_items, allocated_by)\n--\n\n"
    "Return the positions of instructions in the order in which they begin:\n"
    "`scheduler.programs.list_scheduling.begin_order`.");

static PyObject *columns_begin_order(PyObject *Py_UNUSED(self), PyObject *args) {
    PyObject *given_works, *columns[7], *works, *found = NULL;
    if (!PyArg_ParseTuple(args, "O!OOOOOOO", &PyList_Type, &given_works, &columns[0], &columns[1], &columns[2],
                          &columns[3], &columns[4], &columns[5], &columns[6])) return NULL;
    if (!(works = PyList_AsTuple(given_works))) return NULL; /* a copy that no other code can change meanwhile */
    Given given = {0};
    Order o = {0};
    int failed = lend_all(columns, &given);
    o.count = given.work_of.count;
    if (!failed && !read_order(&o, works, &given) && !find_rest_ps(&o) && !run_order(&o)) {
        Made made = {o.order, o.count, o.count};
        found = column_of(&made);
    }
    void *all[] = {o.unit, o.waiting, o.order, o.is_transfer, o.duration_ps, o.whole_ps, o.rest_ps, o.earliest_ps,
                   o.first_follower, o.next_edge, o.follower, o.is_of_begin, o.queues, o.entries};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
    give_back_column(&given.work_of);
    give_back_column(&given.layers);
    give_back_column(&given.allocated_by);
    give_back_rows(&given.after);
    give_back_rows(&given.frees);
    Py_DECREF(works);
    return found;
}
