/*
** What the process may use of this machine: memory, processors, and their name.
**
** Control groups are respected: in a container with 2 GiB and 1.5 processors gx sees just these.
** All functions read a few small files of /proc and /sys, allocate nothing, and never fail: what
** cannot be read is not a limit.  Any thread.
*/
#ifndef GX_MACHINE_H
#define GX_MACHINE_H

#include "types.h"

/* Bytes of memory: the physical memory, or the control group's limit where that is less. */
size_t gx_machine_memory(void);

/* Bytes that could be had now without swapping (page cache counts as free), at most the above. */
size_t gx_machine_memory_available(void);

/* Processors that the process may run on, at least 1: affinity mask and control group quota. */
int gx_machine_cpus(void);

/*
** "Intel(R) Xeon(R) Processor @ 2.10GHz"; the architecture's name where the system does not
** tell.
*/
void gx_machine_cpu_name(char *text, size_t bytes);

#endif
