/* Memories: allocation of buffers, a port of hw_models/simulation/space.py, and bandwidth shared by flows, a port of
 * hw_models/simulation/bandwidth.py.
 */

static void space_there(Handler *h, int w, int freed_by); /* both in workers.h */
static void moved(Handler *h, int number, int limit);

/* ---- space ---- */

static void settle_later(Handler *h, int port) {
    if (!h->n_changed) h->is_settled_later = 1;
    if (!h->ports[port].is_changed) {
        h->ports[port].is_changed = 1;
        h->changed[h->n_changed++] = port;
    }
}

/* Record a memory's used bytes from now on, replacing an earlier entry of the same time. */
static void note_used(Handler *h, Port *port) {
    if (port->history_count && port->history[port->history_count - 1].time_ps == h->now_ps) {
        port->history[port->history_count - 1].used_bytes = port->used_bytes;
        return;
    }
    Change *history = grown(h, port->history, port->history_count, &port->history_room, sizeof(Change));
    if (!history) return;
    port->history = history;
    history[port->history_count++] = (Change){h->now_ps, port->used_bytes};
}

static void add_wish(Handler *h, Wishes *to, Wish wish) {
    if (to->first && to->first + to->count == to->room) {
        memmove(to->wishes, to->wishes + to->first, (size_t)to->count * sizeof(Wish));
        to->first = 0;
    }
    Wish *wishes = grown(h, to->wishes, to->first + to->count, &to->room, sizeof(Wish));
    if (!wishes) return;
    to->wishes = wishes;
    wishes[to->first + to->count++] = wish;
}

static void ask(Handler *h, int w, int position, int buffer) {
    int space = h->space_of[buffer];
    for (int n = h->spaces.first[space]; n < h->spaces.first[space + 1]; n++) {
        int port = h->spaces.items[n];
        h->workers[w].missing++;
        add_wish(h, &h->ports[port].new, (Wish){position, buffer, w, h->space_bytes[n]});
        settle_later(h, port);
    }
}

static void give_back(Handler *h, int buffer, int position) {
    int space = h->space_of[buffer];
    for (int n = h->spaces.first[space]; n < h->spaces.first[space + 1]; n++) {
        Port *port = &h->ports[h->spaces.items[n]];
        port->used_bytes -= h->space_bytes[n];
        port->freed_by = position;
        if (port->waiting.count || port->new.count) settle_later(h, h->spaces.items[n]);
        else note_used(h, port);
    }
}

static int by_position(const void *one, const void *other) {
    const Wish *a = one, *b = other;
    if (a->position != b->position) return a->position < b->position ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

/* Grant waiting allocations in memories that changed in this instant: SharedSpace.handle and Space.grant. Requests are
 * served first in, first out, those of one instant by instruction; one that does not fit blocks those behind it.
 */
static void grant(Handler *h) {
    int granted[MOST_PORTS * 4], freed_by[MOST_PORTS * 4], n_granted = 0, n_changed = h->n_changed;
    int ports[MOST_PORTS];
    memcpy(ports, h->changed, (size_t)n_changed * sizeof(int));
    for (int n = 0; n < n_changed; n++) h->ports[ports[n]].is_changed = 0;
    h->n_changed = h->is_settled_later = 0;
    for (int n = 0; n < n_changed; n++) {
        Port *port = &h->ports[ports[n]];
        Wishes *waiting = &port->waiting, *new = &port->new;
        if (new->count > 1) qsort(new->wishes, (size_t)new->count, sizeof(Wish), by_position);
        for (int each = 0; each < new->count; each++) add_wish(h, waiting, new->wishes[each]);
        new->count = 0;
        while (waiting->count) {
            Wish wish = waiting->wishes[waiting->first];
            if (wish.size_bytes > port->capacity_bytes - port->used_bytes) { port->was_short = 1; break; }
            port->used_bytes += wish.size_bytes;
            waiting->first++;
            if (!--waiting->count) waiting->first = 0;
            if (!--h->workers[wish.worker].missing) {
                if (n_granted == MOST_PORTS * 4) { fail(h, "too many are granted"); return; }
                granted[n_granted] = wish.worker;
                freed_by[n_granted++] = port->freed_by;
            }
        }
        note_used(h, port);
    }
    for (int n = 0; n < n_granted; n++) space_there(h, granted[n], freed_by[n]);
}

/* ---- bandwidth ---- */

static void pace(Handler *h, Flow *flow, int limit) {
    int64_t lasted_ps = h->now_ps - flow->marked_ps;
    if (lasted_ps) {
        if (!flow->paced_ps && !(flow->paced_ps = calloc((size_t)h->n_limits, sizeof(int64_t)))) fail(h, "memory");
        else flow->paced_ps[flow->limit] += lasted_ps;
    }
    flow->limit = limit;
    flow->marked_ps = h->now_ps;
}

/* Set the number of older instructions of its queue that each running flow comes behind, 0 where none goes first; return
 * the highest: ranks_of in Python.
 */
static int set_ranks(Handler *h, int *ranks) {
    int highest = 0;
    for (int n = 0; n < h->n_running; n++) {
        const Flow *flow = &h->flows[h->running[n]];
        int queue = h->workers[flow->worker].queue;
        ranks[n] = 0;
        if (h->queues[queue].servers == 1) continue;
        int older[MOST_FLOWS];
        for (int each = 0; each < h->n_running; each++) {
            const Flow *other = &h->flows[h->running[each]];
            if (h->workers[other->worker].queue != queue || other->position >= flow->position) continue;
            int seen = 0; /* flows of one instruction count once */
            while (seen < ranks[n] && older[seen] != other->position) seen++;
            if (seen == ranks[n]) older[ranks[n]++] = other->position;
        }
        if (ranks[n] > highest) highest = ranks[n];
    }
    return highest;
}

/* Set the max-min fair rate of each running flow of a rank and the port that limits it (-1: none), and take what they
 * use from `spare`: _fill in Python.
 */
static void fill(Handler *h, int rank, const int *ranks, double *spare, double *rates, int *slowed_by) {
    double weights[MOST_PORTS];
    int waiting[MOST_FLOWS], left = 0, ports = h->n_ports;
    for (int p = 0; p < ports; p++) weights[p] = 0.0;
    for (int n = 0; n < h->n_running; n++) {
        if (ranks[n] != rank) continue;
        const Demand *asks = &h->demands[h->flows[h->running[n]].demand];
        for (int l = 0; l < asks->loads.count; l++) {
            Load load = h->loads[asks->loads.first + l];
            weights[load.port] += load.weight;
        }
        int at = left++;
        for (; at && h->demands[h->flows[h->running[waiting[at - 1]]].demand].bytes_per_ps > asks->bytes_per_ps; at--)
            waiting[at] = waiting[at - 1];
        waiting[at] = n;
        slowed_by[n] = -1;
    }
    while (left) {
        double level = INFINITY;
        int full = -1, taken = 0, kept = 0, frozen[MOST_FLOWS];
        for (int p = 0; p < ports; p++)
            if (weights[p] > 0 && spare[p] / weights[p] < level) { level = spare[p] / weights[p]; full = p; }
        double least = h->demands[h->flows[h->running[waiting[0]]].demand].bytes_per_ps;
        if (least <= level * (1 + 1e-12)) {
            level = least;
            frozen[taken++] = waiting[0];
            memmove(waiting, waiting + 1, (size_t)--left * sizeof(int));
        } else {
            for (int n = 0; n < left; n++) {
                const Demand *asks = &h->demands[h->flows[h->running[waiting[n]]].demand];
                int uses = 0;
                for (int l = 0; l < asks->loads.count; l++) uses |= h->loads[asks->loads.first + l].port == full;
                if (uses) { slowed_by[waiting[n]] = full; frozen[taken++] = waiting[n]; }
                else waiting[kept++] = waiting[n];
            }
            left = kept;
            if (!taken) { fail(h, "nobody is slowed"); return; }
        }
        for (int n = 0; n < taken; n++) {
            const Demand *asks = &h->demands[h->flows[h->running[frozen[n]]].demand];
            rates[frozen[n]] = level;
            for (int l = 0; l < asks->loads.count; l++) {
                Load load = h->loads[asks->loads.first + l];
                double rest = spare[load.port] - load.weight * level;
                spare[load.port] = rest > 0.0 ? rest : 0.0;
                weights[load.port] -= load.weight;
                if (weights[load.port] < DUST) weights[load.port] = 0.0;
            }
        }
    }
}

/* Set the rate of each running flow and the port that limits it: max_min_rates in Python. */
static void max_min_rates(Handler *h, double *rates, int *slowed_by) {
    double spare[MOST_PORTS];
    int ranks[MOST_FLOWS], highest = set_ranks(h, ranks);
    for (int p = 0; p < h->n_ports; p++) spare[p] = h->ports[p].capacity;
    for (int rank = 0; rank <= highest && !h->failure; rank++) {
        fill(h, rank, ranks, spare, rates, slowed_by);
        for (int p = 0; p < h->n_ports; p++)
            if (spare[p] <= NOTHING_LEFT * h->ports[p].capacity) spare[p] = 0.0;
    }
}

static void share(Handler *h) {
    double rates[MOST_FLOWS];
    int slowed_by[MOST_FLOWS];
    if (h->n_running > MOST_FLOWS) { fail(h, "too many flows"); return; }
    max_min_rates(h, rates, slowed_by);
    if (h->failure) return;
    for (int n = 0; n < h->n_running; n++) {
        Flow *flow = &h->flows[h->running[n]];
        const Demand *asks = &h->demands[flow->demand];
        double speed = asks->bytes_per_ps > 0 ? rates[n] / asks->bytes_per_ps : 1.0;
        int limit = slowed_by[n] >= 0 ? h->ports[slowed_by[n]].limit : asks->limit;
        if (speed != flow->speed || !flow->turn) {
            double left_ps = flow->left_ps - (double)(h->now_ps - flow->updated_ps) * flow->speed;
            flow->left_ps = left_ps > 0.0 ? left_ps : 0.0;
            flow->updated_ps = h->now_ps;
            flow->speed = speed;
            flow->turn++;
            if (speed > 0) after(h, whole_ps(h, flow->left_ps / speed), h->running[n], flow->turn);
        }
        if (limit != flow->limit) pace(h, flow, limit);
    }
}

static void flow_starts(Handler *h, int number) {
    Flow *flow = &h->flows[number];
    const Demand *asks = &h->demands[flow->demand];
    flow->left_ps = asks->duration_ps;
    flow->limit = asks->limit;
    flow->updated_ps = flow->marked_ps = h->now_ps;
    h->running[h->n_running++] = number;
    for (int l = 0; l < asks->crossing.count; l++) {
        Load load = h->loads[asks->crossing.first + l];
        Port *port = &h->ports[load.port];
        port->load = port->load + load.weight;
        if (port->load > port->full) h->contended = 1;
    }
    if (h->contended) share(h);
    else { flow->turn = 1; after(h, asks->whole_ps, number, 1); }
}

static void flow_ends(Handler *h, int number) {
    Flow *flow = &h->flows[number];
    const Demand *asks = &h->demands[flow->demand];
    int place = 0;
    while (h->running[place] != number) place++;
    memmove(h->running + place, h->running + place + 1, (size_t)(--h->n_running - place) * sizeof(int));
    for (int l = 0; l < asks->crossing.count; l++) {
        Load load = h->loads[asks->crossing.first + l];
        h->ports[load.port].load -= load.weight;
    }
    for (int l = 0; l < asks->traffic.count; l++) {
        Load load = h->loads[asks->traffic.first + l];
        h->ports[load.port].moved_bytes += load.weight;
    }
    if (!h->n_running) {
        for (int p = 0; p < h->n_ports; p++) h->ports[p].load = 0.0;
        h->contended = 0;
    } else if (h->contended) {
        h->contended = 0;
        for (int p = 0; p < h->n_ports; p++) h->contended |= h->ports[p].load > h->ports[p].full;
        share(h);
    }
    int limit = flow->limit;
    if (flow->paced_ps) { /* the limit of longest total duration; the last name of equals, as limits are sorted */
        pace(h, flow, limit);
        for (int other = 0, is_first = 1; flow->paced_ps && other < h->n_limits; other++)
            if (flow->paced_ps[other] && (is_first || flow->paced_ps[other] >= flow->paced_ps[limit])) {
                limit = other;
                is_first = 0;
            }
        free(flow->paced_ps);
        flow->paced_ps = NULL;
    }
    moved(h, number, limit);
}
