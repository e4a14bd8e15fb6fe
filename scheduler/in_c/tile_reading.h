/* Parsing of a layer and of search parameters from a sequence of numbers. A number out of range raises ValueError, so
 * that no input can lead to an access out of bounds or a division by zero.
 */

typedef struct { PyObject **items; Py_ssize_t count, at; } Numbers;

enum { MOST_ITEMS = 1 << 20 };
static const int64_t BYTES = (int64_t)1 << 53;

static PyObject *next_number(Numbers *numbers) {
    if (PyErr_Occurred()) return NULL;
    if (numbers->at < numbers->count) return numbers->items[numbers->at++];
    PyErr_SetString(PyExc_ValueError, "too few numbers");
    return NULL;
}

/* Return the next number if it is an integer in [lowest, highest]; else `lowest`, with an exception set. */
static int64_t whole(Numbers *numbers, int64_t lowest, int64_t highest) {
    PyObject *given = next_number(numbers);
    long long found = given ? PyLong_AsLongLong(given) : 0;
    if (!PyErr_Occurred() && found >= lowest && found <= highest) return found;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a number is out of range");
    return lowest;
}

/* Return the next number if it is in [lowest, 2^53]; else 1, with an exception set. */
static double real(Numbers *numbers, double lowest) {
    PyObject *given = next_number(numbers);
    double found = given ? PyFloat_AsDouble(given) : 1.0;
    if (!PyErr_Occurred() && found >= lowest && found <= (double)BYTES) return found;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a number is out of range");
    return 1.0;
}

static int flag(Numbers *numbers) { return (int)whole(numbers, 0, 1); }

/* Return a zeroed array whose length is the next number; NULL with an exception set. */
static void *items(Numbers *numbers, int *count, size_t size) {
    *count = (int)whole(numbers, 0, MOST_ITEMS);
    void *found = PyErr_Occurred() ? NULL : calloc((size_t)*count + 1, size);
    if (!found && !PyErr_Occurred()) PyErr_NoMemory();
    return found;
}

/* Return the next range of an array of `count` items, after the `given` assigned so far: its length is read. */
static Span span(Numbers *numbers, int *given, int count) {
    Span found = {*given, (int)whole(numbers, 0, count - *given)};
    *given += found.count;
    return found;
}

typedef struct { int loops, reads, dims, terms, shapes; } Given; /* items assigned so far of the layer's arrays */

/* Read the dimensions of a tensor that a nest with `loops` loops accesses. */
static Span read_dims(Numbers *numbers, Layer *layer, Given *given, int loops, int64_t least_stride) {
    Span dims = span(numbers, &given->dims, layer->n_indices);
    for (int d = 0; d < dims.count && !PyErr_Occurred(); d++) {
        Dim *dim = &layer->dims[dims.first + d];
        dim->size = whole(numbers, 1, BYTES);
        dim->divisor = whole(numbers, 1, BYTES);
        dim->window = whole(numbers, 0, BYTES);
        dim->is_exact = flag(numbers);
        dim->is_opaque = flag(numbers);
        dim->terms = span(numbers, &given->terms, layer->n_terms);
        for (int n = 0; n < dim->terms.count && !PyErr_Occurred(); n++) {
            Term *term = &layer->terms[dim->terms.first + n];
            term->loop = (int)whole(numbers, 0, loops - 1);
            term->stride = whole(numbers, least_stride, BYTES);
        }
    }
    return dims;
}

static int tensor_of(Numbers *numbers, const Layer *layer) { return (int)whole(numbers, 0, layer->n_tensors - 1); }

static void check_rank(const Layer *layer, int tensor, int rank) {
    if (!PyErr_Occurred() && rank != layer->tensors[tensor].rank)
        PyErr_SetString(PyExc_ValueError, "a tensor has another rank");
}

static void read_nest(Numbers *numbers, Layer *layer, Given *given, Nest *nest) {
    nest->target = tensor_of(numbers, layer);
    nest->is_view = flag(numbers);
    nest->unit = (int)whole(numbers, 0, layer->n_units - 1);
    nest->internal_bytes = whole(numbers, 0, BYTES);
    nest->handed_bytes = whole(numbers, 0, BYTES);
    nest->counts_iterations = flag(numbers);
    nest->share = whole(numbers, 0, BYTES);
    nest->of_share = whole(numbers, 1, BYTES);
    for (int n = 0; n < 3; n++) nest->each[n] = whole(numbers, 0, BYTES);
    for (int n = 0; n < 3; n++) nest->last[n] = whole(numbers, 0, BYTES);
    nest->loops = span(numbers, &given->loops, layer->n_loops);
    int loops = nest->loops.count;
    for (int n = 0; n < loops && !PyErr_Occurred(); n++) {
        Loop *loop = &layer->loops[nest->loops.first + n];
        loop->extent = whole(numbers, 1, BYTES);
        loop->is_counted = flag(numbers);
        loop->role = (int)whole(numbers, ROWS, COUNT);
    }
    nest->depth_loop = (int)whole(numbers, -1, loops - 1);
    nest->writes = read_dims(numbers, layer, given, loops, 1);
    check_rank(layer, nest->target, nest->writes.count);
    nest->reads = span(numbers, &given->reads, layer->n_reads);
    for (int n = 0; n < nest->reads.count && !PyErr_Occurred(); n++) {
        Read *read = &layer->reads[nest->reads.first + n];
        read->tensor = tensor_of(numbers, layer);
        read->dims = read_dims(numbers, layer, given, loops, -BYTES);
        check_rank(layer, read->tensor, read->dims.count);
    }
}

static void read_unit(Numbers *numbers, Unit *unit) {
    unit->is_array = flag(numbers);
    unit->rate = real(numbers, 1.0);
    unit->efficiency = real(numbers, 1e-9);
    unit->special_cycles = real(numbers, 0.0);
    unit->rows = whole(numbers, 1, BYTES);
    unit->columns = whole(numbers, 1, BYTES);
    unit->depth = whole(numbers, 1, BYTES);
    unit->fill_cycles = whole(numbers, 0, BYTES);
    unit->drain_cycles = whole(numbers, 0, BYTES);
    unit->drain_cycles_per_row = whole(numbers, 0, BYTES);
    unit->accumulator_sets = whole(numbers, 1, 2);
    unit->arrays = whole(numbers, 1, BYTES);
    unit->reused_rows = whole(numbers, 1, BYTES);
    unit->reused_columns = whole(numbers, 1, BYTES);
    unit->element_bytes = whole(numbers, 0, 64);
}

static void read_operand(Numbers *numbers, const Layer *layer, Operand *operand) {
    operand->tensor = tensor_of(numbers, layer);
    operand->is_weight = flag(numbers);
    operand->is_broadcast = flag(numbers);
    operand->name_rank = (int)whole(numbers, 0, MOST_OPERANDS);
    operand->depends = (uint64_t)whole(numbers, 0, ((int64_t)2 << DEPTH_STEPS) - 1);
    operand->from_ddr = real(numbers, 0.0);
    operand->streamed = real(numbers, 0.0);
    operand->filled = real(numbers, 0.0);
    operand->sharing = whole(numbers, 1, BYTES);
    operand->copies = whole(numbers, 1, BYTES);
    operand->distinct_bytes = whole(numbers, 0, BYTES);
}

/* Read a layer; free_layer may be called on it whether an exception is set or not. */
static void read_layer(Numbers *numbers, Layer *layer) {
    Given given = {0};
    layer->n_dims = (int)whole(numbers, 1, 60 / 6 - 1); /* `BITS` bits of a key per dimension, and for the depth */
    for (int d = 0; d <= layer->n_dims; d++) layer->extents[d] = whole(numbers, 1, BYTES);
    for (int d = 0; d < layer->n_dims; d++) layer->sink_shape[d] = whole(numbers, 1, BYTES);
    for (int d = 0; d < layer->n_dims; d++) layer->memory_order[d] = (int)whole(numbers, 0, layer->n_dims - 1);
    layer->cores = whole(numbers, 1, BYTES);
    layer->output = (int)whole(numbers, TO_LOCAL, TO_DDR);
    layer->has_prefetch = flag(numbers);
    layer->has_several_products = flag(numbers);
    layer->path_startup_ps = whole(numbers, 0, BYTES);
    layer->path_bytes_per_ps = real(numbers, 1e-12);
    layer->broadcast_bytes_per_ps = real(numbers, 1e-12);
    layer->local_bytes_per_s = real(numbers, 1e-12);
    layer->cycle_ps = real(numbers, 1e-12);
    int widest = 1, n_order;
    if (!(layer->tensors = items(numbers, &layer->n_tensors, sizeof(Tensor)))) return;
    for (int n = 0; n < layer->n_tensors; n++) {
        layer->tensors[n].rank = (int)whole(numbers, 0, MOST_RANK);
        layer->tensors[n].element_bytes = whole(numbers, 0, 64);
    }
    if (!(layer->units = items(numbers, &layer->n_units, sizeof(Unit)))) return;
    if (!layer->n_units || layer->n_units > MOST_UNITS) PyErr_SetString(PyExc_ValueError, "no unit, or too many");
    for (int n = 0; n < layer->n_units && !PyErr_Occurred(); n++) read_unit(numbers, &layer->units[n]);
    if (!(layer->loops = items(numbers, &layer->n_loops, sizeof(Loop)))) return;
    if (!(layer->reads = items(numbers, &layer->n_reads, sizeof(Read)))) return;
    if (!(layer->dims = items(numbers, &layer->n_indices, sizeof(Dim)))) return;
    if (!(layer->terms = items(numbers, &layer->n_terms, sizeof(Term)))) return;
    if (!(layer->nests = items(numbers, &layer->n_nests, sizeof(Nest)))) return;
    for (int n = 0; n < layer->n_nests && !PyErr_Occurred(); n++) {
        read_nest(numbers, layer, &given, &layer->nests[n]);
        widest = (int)most(widest, layer->nests[n].loops.count);
    }
    if (!(layer->shapes = items(numbers, &layer->n_shapes, sizeof(int64_t)))) return;
    if (!(layer->wanted = items(numbers, &layer->n_wanted, sizeof(Wanted)))) return;
    if (layer->n_wanted > MOST_OPERANDS) PyErr_SetString(PyExc_ValueError, "too many outputs");
    for (int n = 0; n < layer->n_wanted && !PyErr_Occurred(); n++) {
        Wanted *one = &layer->wanted[n];
        one->tensor = tensor_of(numbers, layer);
        one->is_share = flag(numbers);
        one->shape = span(numbers, &given.shapes, layer->n_shapes);
        check_rank(layer, one->tensor, one->shape.count);
        if (one->is_share && one->shape.count > layer->n_dims) PyErr_SetString(PyExc_ValueError, "too many dimensions");
        for (int d = 0; d < one->shape.count; d++) layer->shapes[one->shape.first + d] = whole(numbers, 1, BYTES);
    }
    if (!(layer->operands = items(numbers, &layer->n_operands, sizeof(Operand)))) return;
    if (layer->n_operands > MOST_OPERANDS) PyErr_SetString(PyExc_ValueError, "too many operands");
    for (int n = 0; n < layer->n_operands && !PyErr_Occurred(); n++) read_operand(numbers, layer, &layer->operands[n]);
    if (!(layer->orders = items(numbers, &n_order, sizeof(int)))) return;
    layer->n_orders = n_order / layer->n_dims;
    for (int n = 0; n < n_order; n++) layer->orders[n] = (int)whole(numbers, 0, layer->n_dims - 1);
    if (!layer->n_orders || n_order % layer->n_dims) PyErr_SetString(PyExc_ValueError, "no order of all dimensions");
    layer->need = calloc((size_t)layer->n_tensors + 1, sizeof(*layer->need));
    layer->is_needed = calloc((size_t)layer->n_tensors + 1, 1);
    layer->extents_of = calloc((size_t)widest, sizeof(int64_t));
    if (!layer->need || !layer->is_needed || !layer->extents_of) PyErr_NoMemory();
}

static void free_layer(Layer *layer) {
    void *all[] = {layer->tensors, layer->units, layer->loops, layer->reads, layer->dims, layer->terms, layer->nests,
                   layer->shapes, layer->wanted, layer->operands, layer->orders, layer->need, layer->is_needed,
                   layer->extents_of};
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) free(all[n]);
}

static void read_gaps(Numbers *numbers, int64_t *gaps, int *count) {
    *count = (int)whole(numbers, 0, MOST_RANK);
    for (int n = 0; n < *count; n++) gaps[n] = whole(numbers, -BYTES, BYTES);
}

static void read_asked(Numbers *numbers, Asked *asked) {
    read_gaps(numbers, asked->local_gaps, &asked->n_local_gaps);
    read_gaps(numbers, asked->global_gaps, &asked->n_global_gaps);
    for (int n = 0; n < asked->n_global_gaps; n++) asked->global_room += asked->global_gaps[n];
    asked->near_bytes = whole(numbers, 0, BYTES);
    asked->far_bytes = whole(numbers, 0, BYTES);
    asked->global_buffer_bytes = whole(numbers, 0, BYTES);
    asked->store_burst_bytes = whole(numbers, 0, BYTES);
    asked->ddr_bytes_per_ps = real(numbers, 1e-12);
    asked->burst_bytes = whole(numbers, 1, BYTES);
    asked->dma_startup_ps = whole(numbers, 0, BYTES);
    asked->at_once = real(numbers, 1.0);
    asked->overlaps = flag(numbers);
    asked->hidden_cost = real(numbers, 0.0);
    asked->worthwhile = real(numbers, 0.0);
    asked->overlapped = real(numbers, 0.0);
    asked->most_tiles = whole(numbers, 0, BYTES);
    asked->most_passes = whole(numbers, 0, BYTES);
    asked->most_climbs = whole(numbers, 0, 10000);
    asked->plateau_steps = whole(numbers, 0, BYTES);
    asked->depth_halvings = whole(numbers, 0, 62);
}
