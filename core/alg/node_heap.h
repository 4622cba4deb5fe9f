/*
** A heap of nodes by their keys, each at most once: the least comes first.  A node whose key falls
** rises in it.
*/
#ifndef GX_NODE_HEAP_H
#define GX_NODE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gx_node_heap {
    double *key;           /* of each node                                */
    int64_t *node, *place; /* the heap; where a node is, or one of these  */
    int64_t size;
} gx_node_heap;

enum { GX_HEAP_NEVER = -1, GX_HEAP_TAKEN = -2 };

/* All of n nodes are in none. */
static inline void gx_heap_clear(gx_node_heap *h, int64_t n)
{
    for (int64_t v = 0; v < n; v++) {
        h->place[v] = GX_HEAP_NEVER;
    }
    h->size = 0;
}

static inline void gx_heap_set(gx_node_heap *h, int64_t k, int64_t v)
{
    h->node[k] = v;
    h->place[v] = k;
}

/* v with that key; false: it has been taken off, or has a key as low. */
static inline bool gx_heap_put(gx_node_heap *h, int64_t v, double key)
{
    int64_t k = h->place[v];
    if (k == GX_HEAP_TAKEN || (k >= 0 && !(key < h->key[v]))) {
        return false;
    }
    h->key[v] = key;
    for (k = k < 0 ? h->size++ : k; k > 0 && key < h->key[h->node[(k - 1) / 2]]; k = (k - 1) / 2) {
        gx_heap_set(h, k, h->node[(k - 1) / 2]);
    }
    gx_heap_set(h, k, v);
    return true;
}

/* The first node, taken off; there is one. */
static inline int64_t gx_heap_take(gx_node_heap *h)
{
    int64_t first = h->node[0], last = h->node[--h->size], k = 0;
    for (int64_t child = 1; child < h->size; child = 2 * k + 1) {
        child += child + 1 < h->size && h->key[h->node[child + 1]] < h->key[h->node[child]];
        if (!(h->key[h->node[child]] < h->key[last])) {
            break;
        }
        gx_heap_set(h, k, h->node[child]);
        k = child;
    }
    if (h->size > 0) {
        gx_heap_set(h, k, last);
    }
    h->place[first] = GX_HEAP_TAKEN;
    return first;
}

#endif
