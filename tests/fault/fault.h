/*
** The fault harness: SQL scripts, kinds of failure, and what must hold after each.  fault_main.c
** explains.
*/
#ifndef FAULT_H
#define FAULT_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* One script: what runs before, undisturbed, on the same connection; what runs under failures. */
typedef struct fault_script {
    const char *name;
    const char *prep; /* NULL: nothing                                                   */
    const char *sql;  /* NULL: nothing; the failures are in opening and registering gx   */
} fault_script;

extern const char *const fault_base;       /* SQL that makes the database all scripts start from */
extern const fault_script fault_scripts[]; /* ended by a NULL name                               */

/*
** One kind of failure.  arm() starts to count the kind's events and makes the n-th one fail
** (and, for some kinds, all later ones); disarm() stops and returns how many events there were.
** db is NULL while a connection is being opened: kinds that need one (needs_db) skip such
** scripts.
*/
typedef struct fault_kind {
    const char *name;
    void (*arm)(sqlite3 *db, int64_t n);
    int64_t (*disarm)(sqlite3 *db);
    bool (*is_expected)(int rc); /* may this failure come up as that result code? */
    bool needs_db;
} fault_kind;

extern const fault_kind fault_alloc_once, fault_alloc_all; /* fault_alloc.c */
extern const fault_kind fault_io_once, fault_io_all, fault_io_busy, fault_io_full,
    fault_io_full_volume; /* fault_vfs.c */
extern const fault_kind fault_step_once, fault_step_interrupt, fault_step_thread; /* fault_step.c */
extern const fault_kind fault_pages; /* fault_step.c  */

/* Register the shim over the default VFS, as the default. */
int fault_vfs_install(void);

/* Blocks that are allocated now, in the whole process. */
int64_t fault_alloc_live(void);

#endif
