/* A layer as the tile search sees it (records of scheduler/dsa/tiling/records.py, with the same names), and the work of
 * one of its tiles: `TileWork` of scheduler/kernels/tile_work.py, and its time according to hw_models/dsa.
 */

enum { MOST_RANK = 16, MOST_OPERANDS = 32, MOST_UNITS = 16, DEPTH_STEPS = MOST_RANK };
enum { BITS = 6, MOST_DIMS = 60 / BITS - 1 }; /* bits of a key per dimension, and for the depth */

#define ROWS_OF(Type, name) Type *name; int n_##name /* an array and its length */

typedef struct { int64_t loop, stride; } Term;
typedef struct { int64_t size, divisor, window, is_exact, is_opaque; ROWS_OF(Term, terms); } Dim;
typedef struct { int64_t tensor; ROWS_OF(Dim, dims); } Read;
typedef struct { int64_t extent, is_counted, role; } Loop;
enum { ROWS, COLUMNS, DEPTH, COUNT, TAPS, RUN, ROLES }; /* taps are part of the depth, rows of a run of the rows */

typedef struct {
    int64_t target, is_view, unit, depth_loop, internal_bytes, handed_bytes, counts_iterations, share, of_share;
    int64_t each[3], last[3]; /* operations per iteration and per output: MACs, simple, special */
    ROWS_OF(Loop, loops);
    ROWS_OF(Dim, writes);
    ROWS_OF(Read, reads);
} Nest;

typedef struct {
    double rate, efficiency, special_cycles;
    int64_t is_array, rows, columns, depth, fill_cycles, drain_cycles, drain_cycles_per_row, accumulator_sets, arrays;
    int64_t sums_taps, separate_columns, reused_rows, reused_columns, element_bytes;
    int64_t is_stationary, issue_cycles, taps_together;
} Unit;

typedef struct { int64_t tensor, is_share; ROWS_OF(int64_t, shape); } Output;

enum { MOST_LEVELS = 8 }; /* memories beyond the global buffer */

typedef struct { int64_t level; double share; } Source;

typedef struct {
    int64_t tensor, can_come_ahead, is_broadcast, name_rank;
    int64_t depends; /* bit mask of the dimensions it depends on, the depth included */
    double from_outside, streamed, filled;
    ROWS_OF(Source, sources);
    int64_t sharing, copies, distinct_bytes;
    double from_clusters, exchange_ps_per_byte;
} Operand;

typedef struct { int64_t rank, element_bytes; } Tensor;
typedef struct { ROWS_OF(int64_t, dims); } LoopOrder;

typedef struct {
    int n_dims; /* of the sink: `extents` has one more, the depth */
    ROWS_OF(int64_t, extents);
    ROWS_OF(int64_t, sink_shape);
    ROWS_OF(int64_t, memory_order);
    ROWS_OF(Tensor, tensors);
    ROWS_OF(Unit, units);
    ROWS_OF(Nest, nests); /* last first */
    ROWS_OF(Output, outputs);
    ROWS_OF(Operand, operands);
    ROWS_OF(LoopOrder, orders);
    ROWS_OF(Source, stored_in);
    int64_t cores, output_memory, levels, has_prefetch, has_several_products, reloads, path_startup_ps;
    double path_bytes_per_ps, broadcast_bytes_per_ps, local_bytes_per_s, cycle_ps, exchange_startup_ps;
    int64_t (*need)[MOST_RANK]; /* scratch of work_of: elements per dimension that a tile needs of each tensor */
    char *is_needed; /* scratch: whether the tile needs any of each tensor */
    int64_t *extents_of; /* scratch: iterations per loop of a nest */
} Layer;

enum { TO_LOCAL, TO_GLOBAL, TO_OUTSIDE };

typedef struct {
    int64_t operand_bytes[MOST_OPERANDS], output_bytes, between_bytes, unit_ps[MOST_UNITS];
} Work;

static int64_t up(int64_t whole, int64_t part) { return (whole + part - 1) / part; }
static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }
static int64_t most(int64_t one, int64_t other) { return one > other ? one : other; }

static int64_t product(const int64_t *factors, int count) {
    int64_t found = 1;
    for (int n = 0; n < count; n++) found *= factors[n];
    return found;
}

/* ---- the time of a nest ---- */

/* Round up to a whole picosecond, ignoring floating-point error: `whole_ps` of hw_models/simulation/clock.py. */
static int64_t rounded_up_ps(double wait_ps) {
    int64_t whole = (int64_t)wait_ps;
    double rest = wait_ps - (double)whole;
    return rest <= 1e-6 || rest <= wait_ps * 1e-14 ? whole : whole + 1;
}

static double drain_cycles(const Unit *unit, int64_t rows) {
    return (double)(unit->drain_cycles + unit->drain_cycles_per_row * rows);
}

/* Return the cycles of `count` matrix products of these sizes, each of them `taps` products that are added up:
 * `_cycles` of hw_models/dsa/arrays.py. */
static double array_cycles(
    const Unit *unit, int64_t height, int64_t width, int64_t depth, int64_t count, int64_t taps
) {
    double each = (double)(up(depth, unit->depth) * unit->rows * unit->columns * unit->depth) / unit->rate;
    double fill = (double)unit->fill_cycles;
    int share_blocks = unit->separate_columns && depth == 1;
    int64_t across = share_blocks ? up(width * count, unit->columns) : up(width, unit->columns) * count;
    int64_t all = up(height, unit->rows) * across; /* blocks */
    int64_t whole = up(height / unit->rows * across, unit->arrays), edge = up(all, unit->arrays) - whole;
    whole *= taps, edge *= taps;
    double drain = drain_cycles(unit, unit->rows), last = drain_cycles(unit, height % unit->rows);
    if (unit->accumulator_sets == 1)
        return (double)whole * (fill + each + drain) + (double)edge * (fill + each + last);
    double paced = (double)whole * (each > drain ? each : drain) + (double)edge * (each > last ? each : last);
    if (!edge) last = drain;
    return fill + each + paced - (each > last ? each : last) + last;
}

/* Return the cycles of an instruction that streams so many rows past the weights of an array. */
static double instruction_cycles(const Unit *unit, int64_t rows) {
    double cycles = (double)(rows * unit->columns * unit->depth) / unit->rate, fewest = (double)unit->issue_cycles;
    return !rows ? 0.0 : cycles > fewest ? cycles : fewest;
}

static double run_cycles(const Unit *unit, int64_t rows) {
    double whole = (double)(rows / unit->rows) * instruction_cycles(unit, unit->rows);
    return whole + instruction_cycles(unit, rows % unit->rows);
}

/* Return the cycles of `count` products whose rows are streamed past each block of weights, in runs of `run` rows:
 * `_streamed_cycles` of hw_models/dsa/arrays.py. */
static double streamed_cycles(
    const Unit *unit, int64_t rows, int64_t columns, int64_t depth, int64_t count, int64_t taps, int64_t run
) {
    int share_blocks = unit->separate_columns && depth == 1;
    int64_t across = share_blocks ? up(columns * count, unit->columns) : up(columns, unit->columns) * count;
    int64_t blocks = up(across * up(depth, unit->depth) * taps, unit->arrays);
    double each = (double)(rows / run) * run_cycles(unit, run) + run_cycles(unit, rows % run);
    double hidden = unit->accumulator_sets > 1 ? instruction_cycles(unit, least(run, unit->rows)) : 0.0;
    double exposed = (double)unit->depth - hidden;
    return (double)(unit->fill_cycles + unit->depth) + (double)blocks * (each + (exposed > 0.0 ? exposed : 0.0));
}

/* Return the time of a nest with these iterations on its unit, or of reading its operands if that takes longer. */
static int64_t nest_ps(const Layer *layer, const Nest *nest, const int64_t *extents, const int64_t *operations) {
    const Unit *unit = &layer->units[nest->unit];
    const Loop *loops = nest->loops;
    if (!unit->is_array) {
        int does = operations[0] || operations[1] || operations[2];
        int64_t moved = does ? 0 : product(extents, nest->n_loops), rate = (int64_t)unit->rate;
        double cycles = (double)(up(operations[1] + moved, rate) + up(operations[0], rate))
            + (double)up(operations[2], rate) * unit->special_cycles;
        return rounded_up_ps(cycles * layer->cycle_ps / unit->efficiency);
    }
    int64_t sizes[ROLES] = {1, 1, 1, 1, 1, 1};
    for (int n = 0; n < nest->n_loops; n++) sizes[loops[n].role] *= extents[n];
    int64_t rows = sizes[ROWS] * sizes[RUN], columns = sizes[COLUMNS], count = sizes[COUNT], products = rows * columns * count;
    int64_t depth = sizes[DEPTH] * sizes[TAPS];
    if (operations[0] > 0 && products * depth > operations[0]) depth = up(operations[0], products);
    double cycles = 0.0;
    if (products > 0 && depth > 0) {
        int64_t added_up = unit->sums_taps ? depth : least(sizes[DEPTH], depth), taps = up(depth, added_up);
        int64_t together = least(most(least(unit->taps_together, unit->depth / added_up), 1), taps);
        if (!unit->sums_taps && added_up < depth) added_up *= together, taps = up(taps, together);
        double one_way = unit->is_stationary
            ? streamed_cycles(unit, rows, columns, added_up, count, taps, sizes[RUN])
            : array_cycles(unit, rows, columns, added_up, count, taps);
        double swapped = unit->is_stationary ? one_way : array_cycles(unit, columns, rows, added_up, count, taps);
        cycles = one_way < swapped ? one_way : swapped;
    }
    int64_t one_way = rows * depth * up(columns, unit->reused_columns) * count
        + columns * depth * up(rows, unit->reused_rows) * count;
    int64_t swapped = rows * depth * up(columns, unit->reused_rows) * count
        + columns * depth * up(rows, unit->reused_columns) * count;
    int64_t read = unit->is_stationary ? one_way : least(one_way, swapped);
    double read_ps = (double)((__int128)(read * unit->element_bytes) * 1000000000000)
        / layer->local_bytes_per_s;
    return most(rounded_up_ps(cycles * layer->cycle_ps / unit->efficiency), (int64_t)nearbyint(read_ps));
}

/* ---- the work of a tile ---- */

/* Set the iterations of each loop that are needed to write the region `written` of a nest's tensor. */
static void set_iterations(const Layer *layer, const Nest *nest, const int64_t *written, int64_t depth) {
    int64_t *extents = layer->extents_of;
    for (int n = 0; n < nest->n_loops; n++) extents[n] = nest->loops[n].extent;
    for (int d = 0; d < nest->n_writes; d++) {
        const Dim *dim = &nest->writes[d];
        int64_t left = written[d];
        for (int n = 0; n < dim->n_terms; n++) { /* outermost loop of a merged dimension first */
            Term term = dim->terms[n];
            extents[term.loop] = least(extents[term.loop], up(left, term.stride));
            left = least(left, term.stride);
        }
    }
    if (depth > 0 && nest->depth_loop >= 0) extents[nest->depth_loop] = least(extents[nest->depth_loop], depth);
}

/* Return the number of elements of a dimension that the iterations in extents_of touch: `Access.extents`. */
static int64_t touched(const Layer *layer, const Dim *dim) {
    const int64_t *extents = layer->extents_of;
    int64_t reach = dim->is_opaque;
    for (int n = 0; n < dim->n_terms; n++) {
        Term term = dim->terms[n];
        if (dim->is_opaque) reach *= extents[term.loop];
        else reach += (term.stride < 0 ? -term.stride : term.stride) * (extents[term.loop] - 1);
    }
    if (!dim->is_opaque) reach = (dim->is_exact ? reach : reach + dim->divisor - 1) / dim->divisor + dim->window;
    return least(reach, dim->size);
}

static void need_read(const Layer *layer, const Read *read) {
    int64_t *need = layer->need[read->tensor];
    for (int d = 0; d < read->n_dims; d++) {
        int64_t further = touched(layer, &read->dims[d]);
        need[d] = layer->is_needed[read->tensor] ? most(need[d], further) : further;
    }
    layer->is_needed[read->tensor] = 1;
}

/* Compute the work of a tile; `depth`: iterations of the depth loop, 0 for all. */
static void work_of(const Layer *layer, const int64_t *tile, int64_t depth, Work *found) {
    int64_t wanted[MOST_OPERANDS];
    *found = (Work){0};
    memset(layer->is_needed, 0, (size_t)layer->n_tensors);
    for (int n = 0; n < layer->n_outputs; n++) {
        const Output *one = &layer->outputs[n];
        int64_t *need = layer->need[one->tensor];
        for (int d = 0; d < one->n_shape; d++)
            need[d] = one->is_share ? up(one->shape[d] * tile[d], layer->sink_shape[d]) : one->shape[d];
        layer->is_needed[one->tensor] = 1;
        wanted[n] = product(need, one->n_shape);
        found->output_bytes += wanted[n] * layer->tensors[one->tensor].element_bytes;
    }
    for (int n = 0; n < layer->n_nests; n++) {
        const Nest *nest = &layer->nests[n];
        if (!layer->is_needed[nest->target]) continue;
        const int64_t *written = layer->need[nest->target], *extents = layer->extents_of;
        set_iterations(layer, nest, written, depth);
        int64_t held_bytes = nest->internal_bytes + nest->handed_bytes; /* at least one of them is 0 */
        if (held_bytes) found->between_bytes += product(written, nest->n_writes) * held_bytes;
        if (!nest->is_view) {
            int64_t outputs = 1, operations[3];
            for (int l = 0; l < nest->n_loops; l++) if (nest->loops[l].is_counted) outputs *= extents[l];
            int64_t times = nest->counts_iterations
                ? product(extents, nest->n_loops) * nest->share / nest->of_share : 0;
            for (int c = 0; c < 3; c++) operations[c] = nest->each[c] * times + nest->last[c] * outputs;
            found->unit_ps[nest->unit] += nest_ps(layer, nest, extents, operations);
        }
        for (int r = 0; r < nest->n_reads; r++) need_read(layer, &nest->reads[r]);
    }
    for (int n = 0; n < layer->n_outputs; n++) { /* halos are computed by every tile that needs them */
        const Output *one = &layer->outputs[n];
        int64_t computed = product(layer->need[one->tensor], one->n_shape);
        found->between_bytes += (computed - wanted[n]) * layer->tensors[one->tensor].element_bytes;
    }
    for (int n = 0; n < layer->n_operands; n++) {
        int64_t tensor = layer->operands[n].tensor;
        found->operand_bytes[n] = product(layer->need[tensor], (int)layer->tensors[tensor].rank)
            * layer->tensors[tensor].element_bytes;
    }
}
