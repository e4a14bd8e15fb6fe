/* Tile search: a port of lattice.py and search.py in scheduler/dsa/tiling. Candidates are computed when first reached,
 * and cached for later searches with other free space or another DDR bandwidth.
 */

enum { MOST_CUTS = 1000, MOST_NEAR = 1024 };

typedef struct {
    Layer layer;
    int n_limits, limits[MOST_RANK]; /* largest number of halvings per dimension, the depth last */
    Cut **cuts;
    int n_cuts, room;
    int *slots, n_slots; /* hash table by key: index of a cut, or -1 */
    int64_t searches;
    const Asked *asked;
    int has_no_memory;
} Search;

static int halvings_of(uint64_t key, int place) { return (int)(key >> (BITS * place) & 63); }

/* Return whether a key comes before another in lexicographic order of their halvings. */
static int comes_before(const Search *s, uint64_t one, uint64_t other) {
    for (int n = 0; n < s->n_limits; n++)
        if (halvings_of(one, n) != halvings_of(other, n)) return halvings_of(one, n) < halvings_of(other, n);
    return 0;
}

static void forget(Search *s) {
    for (int n = 0; n < s->n_cuts; n++) free(s->cuts[n]);
    for (int n = 0; n < s->n_slots; n++) s->slots[n] = -1;
    s->n_cuts = 0;
}

static int slot_of(const Search *s, uint64_t key) {
    int slot = (int)((key * 0x9E3779B97F4A7C15u) >> 40) & (s->n_slots - 1);
    while (s->slots[slot] >= 0 && s->cuts[s->slots[slot]]->key != key) slot = (slot + 1) & (s->n_slots - 1);
    return slot;
}

/* Reserve room for one more cut; return 0, or -1 without memory. */
static int grow(Search *s) {
    if (s->n_cuts < s->room) return 0;
    int room = s->room ? 2 * s->room : 64;
    Cut **cuts = realloc(s->cuts, sizeof(Cut *) * (size_t)room);
    if (cuts) s->cuts = cuts;
    int *slots = malloc(sizeof(int) * 4 * (size_t)room);
    if (!cuts || !slots) { free(slots); return -1; }
    free(s->slots);
    s->slots = slots;
    s->n_slots = 4 * room;
    s->room = room;
    for (int n = 0; n < s->n_slots; n++) slots[n] = -1;
    for (int n = 0; n < s->n_cuts; n++) slots[slot_of(s, s->cuts[n]->key)] = n;
    return 0;
}

/* Return the cut of a key, evaluated for this search; NULL without memory. */
static Cut *candidate(Search *s, uint64_t key) {
    const Layer *layer = &s->layer;
    if (grow(s)) { s->has_no_memory = 1; return NULL; }
    int slot = slot_of(s, key);
    Cut *cut = s->slots[slot] >= 0 ? s->cuts[s->slots[slot]] : NULL;
    if (!cut) {
        cut = calloc(1, sizeof(Cut) + sizeof(CutOperand) * (size_t)layer->n_operands);
        if (!cut) { s->has_no_memory = 1; return NULL; }
        int64_t tile[MOST_RANK];
        for (int n = 0; n < s->n_limits; n++) tile[n] = up(layer->extents[n], (int64_t)1 << halvings_of(key, n));
        cut->key = key;
        cut_into(layer, tile, halvings_of(key, layer->n_dims) ? tile[layer->n_dims] : 0, cut);
        s->slots[slot] = s->n_cuts;
        s->cuts[s->n_cuts++] = cut;
    }
    if (cut->priced_in != s->searches) {
        Places places;
        stage(layer, s->asked, cut, &places);
        cut->estimate_ps = estimate_ps(layer, s->asked, cut, &places);
        cut->fits = is_fitting(layer, s->asked, cut, &places);
        cut->priced_in = s->searches;
    }
    return cut;
}

static uint64_t moved(uint64_t key, int place, int by) { return key + ((uint64_t)(int64_t)by << (BITS * place)); }

/* Set the keys with one dimension halved once more; return their number. */
static int finer(const Search *s, uint64_t key, uint64_t *found) {
    int count = 0;
    for (int n = 0; n < s->n_limits; n++)
        if (halvings_of(key, n) < s->limits[n]) found[count++] = moved(key, n, 1);
    return count;
}

/* Set the neighbours of a key: those of `finer` and, with `trades`, those with one dimension coarser, alone or together
 * with another one finer; return their number, without duplicates.
 */
static int near(const Search *s, uint64_t key, int trades, uint64_t *found) {
    int count = finer(s, key, found);
    for (int n = 0; trades && n < s->n_limits; n++) {
        int times = halvings_of(key, n);
        for (int back = 1; back <= times; back += times > 1 ? times - 1 : 1) { /* one halving undone, then all */
            uint64_t doubled = moved(key, n, -back), more[MOST_RANK];
            int further = finer(s, doubled, more);
            more[further++] = doubled;
            for (int m = 0; m < further; m++) {
                int is_new = more[m] != key;
                for (int k = 0; is_new && k < count; k++) is_new = found[k] != more[m];
                if (is_new && count < MOST_NEAR) found[count++] = more[m];
            }
        }
    }
    return count;
}

/* Return whether a key makes at most `most_tiles` tiles and `most_passes` passes over them. */
static int is_small(const Search *s, uint64_t key, int64_t most_tiles, int64_t most_passes) {
    int64_t pieces[MOST_RANK];
    for (int n = 0; n < s->n_limits; n++) {
        int64_t size = s->layer.extents[n];
        pieces[n] = up(size, up(size, (int64_t)1 << halvings_of(key, n)));
    }
    int64_t tiles = product(pieces, s->layer.n_dims);
    return tiles <= most_tiles && tiles * pieces[s->layer.n_dims] <= most_passes;
}

/* Greedily halve the dimension that costs least time per byte saved until the cut fits; return NULL if none does. */
static Cut *fitting(Search *s, uint64_t key) {
    Cut *best = candidate(s, key);
    while (best && !best->fits) {
        uint64_t ways[MOST_RANK];
        int count = finer(s, best->key, ways);
        Cut *chosen = NULL;
        double least_price = 0.0;
        for (int n = 0; n < count; n++) {
            Cut *one = candidate(s, ways[n]);
            if (!one) return NULL;
            if (one->tile_bytes >= best->tile_bytes) continue;
            double price = (one->estimate_ps - best->estimate_ps) / (double)(best->tile_bytes - one->tile_bytes);
            if (!chosen || price < least_price || (price == least_price && comes_before(s, one->key, chosen->key))) {
                chosen = one;
                least_price = price;
            }
        }
        best = chosen;
    }
    return best;
}

/* Search from a key: halve until the cut fits, then hill-climb among its neighbours; return the best cut. */
static Cut *search_from(Search *s, uint64_t key) {
    const Asked *asked = s->asked;
    Cut *best = fitting(s, key), *current = best;
    if (!best) return NULL;
    uint64_t ways[MOST_NEAR], *seen = malloc(sizeof(uint64_t) * (size_t)(asked->most_climbs + 1));
    if (!seen) { s->has_no_memory = 1; return NULL; }
    int trades = best->key != 0, n_seen = 0;
    seen[n_seen++] = current->key;
    for (int64_t climb = 0, idle = 0; climb < asked->most_climbs && idle <= asked->plateau_steps; climb++) {
        int64_t most_tiles = most(asked->most_tiles, best->tiles), most_passes = most(asked->most_passes, best->passes);
        int count = near(s, current->key, trades, ways);
        Cut *fastest = NULL;
        for (int n = 0; n < count; n++) {
            int is_seen = 0;
            for (int k = 0; k < n_seen; k++) is_seen |= seen[k] == ways[n];
            if (is_seen || !is_small(s, ways[n], most_tiles, most_passes)) continue;
            Cut *one = candidate(s, ways[n]);
            if (!one) { free(seen); return NULL; }
            int is_better = !fastest || one->estimate_ps < fastest->estimate_ps
                || (one->estimate_ps == fastest->estimate_ps && comes_before(s, one->key, fastest->key));
            if (one->fits && is_better) fastest = one;
        }
        if (!fastest) break;
        current = fastest;
        seen[n_seen++] = current->key;
        if (current->estimate_ps < best->estimate_ps * asked->worthwhile) { best = current; idle = 0; }
        else idle++;
    }
    free(seen);
    return best;
}

/* Return the finest cut whose tiles are in the output's memory order and fast enough; NULL if there is none. */
static Cut *in_memory_order(Search *s, double fast_enough_ps) {
    const Layer *layer = &s->layer;
    Cut *found = NULL;
    uint64_t key = 0;
    for (int place = 0; place < layer->n_dims; place++) {
        int dim = (int)layer->memory_order[place];
        while (halvings_of(key, dim) < s->limits[dim]) {
            key = moved(key, dim, 1);
            Cut *cut = candidate(s, key);
            if (!cut) return NULL;
            int64_t most_loads = 1;
            for (int n = 0; n < layer->n_operands; n++) most_loads = most(most_loads, cut->operands[n].times);
            if (most_loads > 1 || cut->passes > s->asked->most_tiles) return found;
            if (cut->fits && cut->estimate_ps * s->asked->overlapped < fast_enough_ps) found = cut;
        }
    }
    return found;
}

/* Return the best cut found, or NULL if not even the smallest tile fits, or there is no memory. */
static Cut *search(Search *s, const Asked *asked) {
    int depth = s->layer.n_dims;
    if (s->n_cuts > MOST_CUTS) forget(s);
    s->asked = asked;
    s->searches++;
    Cut *best = search_from(s, 0);
    if (!best) return NULL;
    int has_many = best->passes > asked->most_tiles; /* little space: shallow tiles may beat thin ones */
    if ((has_many || s->layer.has_several_products) && s->limits[depth] > asked->depth_halvings) {
        Cut *other = search_from(s, moved(0, depth, (int)asked->depth_halvings));
        if (!other) return NULL;
        if (other->estimate_ps < best->estimate_ps) best = other;
    }
    Cut *pipelined = asked->overlaps ? in_memory_order(s, best->estimate_ps) : NULL;
    return s->has_no_memory ? NULL : pipelined ? pipelined : best; /* memory order: the next layer can begin earlier */
}
