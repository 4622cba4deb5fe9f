/*
** Whether f32 products go to AMX: the processor has tile registers, the system lets this process
** use them, the environment does not say otherwise, and the product is large enough.
**
** A process has to ask for the registers (arch_prctl), once and for good: from then on signals need
** more room on the stack.  So nothing is asked before the first product that would use them.
*/
#include "cpu_amx.h"

#include "cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef GX_HAS_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

bool gx_cpu_amx_has_vectors(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static const char NOT_ASKED[] = "not asked for yet", OFF[] = "off: GX_CPU_AMX";
static const char NO_UNIT[] = "the processor has none";
static const char ON_TILES[] = "on", IN_LOOPS[] = "in loops: GX_CPU_AMX";

static _Atomic(const char *) state = NOT_ASKED;

/* What the environment says, or NULL. */
static const char *wished_state(void)
{
    const char *wish = getenv("GX_CPU_AMX");
    wish = wish == NULL ? "" : wish;
    return strcmp(wish, "off") == 0 ? OFF : strcmp(wish, "loops") == 0 ? IN_LOOPS : NULL;
}

/* The processor has it, the system saves its state, and lets the process use it. */
static const char *ask_for_tiles(void)
{
#ifdef GX_HAS_AMX
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };
    const unsigned tile = 1U << 24, bf16 = 1U << 22, states = 3U << 17 | 7U << 5;
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tile) == 0 || (d & bf16) == 0 ||
        !gx_cpu_amx_has_vectors()) {
        return NO_UNIT;
    }
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    bool is_given =
        (low & states) == states && syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
    return is_given ? ON_TILES : "refused by the system";
#else
    return NO_UNIT;
#endif
}

static void decide(void)
{
    const char *wish = wished_state();
    atomic_store(&state, wish != NULL ? wish : ask_for_tiles());
}

gx_amx_way gx_cpu_amx_way(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, decide);
    const char *now = atomic_load_explicit(&state, memory_order_relaxed);
    return now == ON_TILES ? GX_AMX_UNIT : now == IN_LOOPS ? GX_AMX_LOOPS : GX_AMX_NONE;
}

const char *gx_cpu_amx_state(void)
{
    return atomic_load(&state);
}

/* Sides from which on packing is little beside the products. */
static const int64_t LEAST_SIDE = 128, LEAST_ALL = (int64_t)256 * 256 * 256;

bool gx_cpu_amx_takes(const gx_args *p)
{
    return p->m >= LEAST_SIDE && p->n >= LEAST_SIDE && p->k >= LEAST_SIDE &&
           p->m * p->n >= LEAST_ALL / p->k && gx_cpu_amx_way() != GX_AMX_NONE;
}
