/*
** Vector functions for the loops of cpu_block.c.
**
** Vectorising a loop, gcc calls _ZGVeN8v_gx_v_exp and the like for a function that is declared with
** the attribute simd: eight doubles in, eight out (e: AVX-512; d, four, AVX2; b, two, SSE2).  Here
** they are, each a jump through a pointer: to one of our own (cpu_elementary.c), to the function of
** the same shape in glibc's libmvec, at most 2.5 units in the last place from the truth, or, where
** there is none, to libm for each lane.
** libmvec is opened when it is first wanted, so that gx.so itself needs libc and libm alone, of any
** age.
*/
#define GX_LANES
#include "cpu_vector.h"

#ifdef GX_VECTORS

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* The scalar function, for what is not vectorised. */
#define SCALAR_1(name)                                                                             \
    double gx_v_##name(double x)                                                                   \
    {                                                                                              \
        return name(x);                                                                            \
    }
#define SCALAR_2(name)                                                                             \
    double gx_v_##name(double x, double y)                                                         \
    {                                                                                              \
        return name(x, y);                                                                         \
    }

/* Lane by lane; the pointer; what gcc calls. */
#define SHAPE_1(name, letter, lanes, vector, isa)                                                  \
    __attribute__((target(isa))) static vector name##_##letter(vector x)                           \
    {                                                                                              \
        vector y;                                                                                  \
        for (int k = 0; k < lanes; k++) {                                                          \
            y[k] = name(x[k]);                                                                     \
        }                                                                                          \
        return y;                                                                                  \
    }                                                                                              \
    static vector (*now_##name##_##letter)(vector) = name##_##letter;                              \
    __attribute__((target(isa))) vector _ZGV##letter##N##lanes##v_gx_v_##name(vector x);           \
    __attribute__((target(isa))) vector _ZGV##letter##N##lanes##v_gx_v_##name(vector x)            \
    {                                                                                              \
        return now_##name##_##letter(x);                                                           \
    }
#define SHAPE_2(name, letter, lanes, vector, isa)                                                  \
    __attribute__((target(isa))) static vector name##_##letter(vector x, vector y)                 \
    {                                                                                              \
        vector z;                                                                                  \
        for (int k = 0; k < lanes; k++) {                                                          \
            z[k] = name(x[k], y[k]);                                                               \
        }                                                                                          \
        return z;                                                                                  \
    }                                                                                              \
    static vector (*now_##name##_##letter)(vector, vector) = name##_##letter;                      \
    __attribute__((target(isa)))                                                                   \
    vector _ZGV##letter##N##lanes##vv_gx_v_##name(vector x, vector y);                             \
    __attribute__((target(isa))) vector _ZGV##letter##N##lanes##vv_gx_v_##name(vector x, vector y) \
    {                                                                                              \
        return now_##name##_##letter(x, y);                                                        \
    }

#define DEFINE_1(name)                                                                             \
    SCALAR_1(name)                                                                                 \
    SHAPE_1(name, b, 2, gx_two, "sse2")                                                            \
    SHAPE_1(name, d, 4, gx_four, "avx2")                                                           \
    SHAPE_1(name, e, 8, gx_eight, "avx512f")
#define DEFINE_2(name)                                                                             \
    SCALAR_2(name)                                                                                 \
    SHAPE_2(name, b, 2, gx_two, "sse2")                                                            \
    SHAPE_2(name, d, 4, gx_four, "avx2")                                                           \
    SHAPE_2(name, e, 8, gx_eight, "avx512f")
GX_VECTOR_1(DEFINE_1)
GX_VECTOR_2(DEFINE_2)

/* A pointer, its name in libmvec, and what it is without. */
typedef struct entry {
    void *pointer; /* to the pointer to a function */
    const char *name;
    void (*lanes)(void);
} entry;

#define ENTRY(name, letter, shape)                                                                 \
    {(void *)&now_##name##_##letter, "_ZGV" #letter shape "_" #name,                               \
     (void (*)(void))name##_##letter},
#define ENTRIES_1(name) ENTRY(name, b, "N2v") ENTRY(name, d, "N4v") ENTRY(name, e, "N8v")
#define ENTRIES_2(name) ENTRY(name, b, "N2vv") ENTRY(name, d, "N4vv") ENTRY(name, e, "N8vv")

/* Ours instead. */
static void choose_own(void)
{
#define OWN(name)                                                                                  \
    now_##name##_b = gx_own_##name##_b;                                                            \
    now_##name##_e = gx_own_##name##_e;                                                            \
    now_##name##_d = __builtin_cpu_supports("fma") ? gx_own_##name##_d : now_##name##_d;
    GX_ELEMENTARY(OWN)
#undef OWN
}

static void choose(void *libmvec)
{
    static const entry entries[] = {GX_VECTOR_1(ENTRIES_1) GX_VECTOR_2(ENTRIES_2)};
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++) {
        void *found = libmvec == NULL ? NULL : dlsym(libmvec, entries[k].name);
        memcpy(entries[k].pointer, found == NULL ? (const void *)&entries[k].lanes : &found,
               sizeof found);
    }
    choose_own();
}

static void *libmvec;

static void open_once(void)
{
    libmvec = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL); // never closed: libc's own neighbour
    choose(libmvec);
}

void gx_vector_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
}

void gx_vector_use(int is_libmvec)
{
    gx_vector_open();
    choose(is_libmvec ? libmvec : NULL);
}

#else

void gx_vector_open(void)
{
}

void gx_vector_use(int is_libmvec)
{
    (void)is_libmvec;
}

#endif
