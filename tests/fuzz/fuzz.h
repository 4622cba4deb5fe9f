/*
** Shared by the fuzz targets: a connection with gx, and running SQL on what the fuzzer made.
**
** Each target is one file fuzz_<name>.c with LLVMFuzzerTestOneInput() and a folder
** corpus/<name>/.  `make fuzz` links it with libFuzzer and sanitizers; `make test` links it with
** driver.c, which replays the corpus.  The property of every target includes: no crash, no
** sanitizer finding, no hang, no leak; SQL answers or refuses.
*/
#ifndef FUZZ_H
#define FUZZ_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
** A new in-memory connection with gx and a small memory_limit; ends the process when there is
** none.
*/
sqlite3 *fuzz_open(void);

/* Close; ends the process with a message when something is left open or allocated: the property. */
void fuzz_close(sqlite3 *db);

/*
** Run every statement of sql, stepping through at most 1000 rows each.  ?1 is data as a blob, ?2
** the same bytes as text.  The first row's first column is copied to out as text ("" when there
** is none), when out is not NULL.  Returns the first result code that is not SQLITE_OK; goes on
** with the next statement all the same.
*/
int fuzz_run(sqlite3 *db, const char *sql, const uint8_t *data, size_t size, char *out,
             size_t out_size);

/* Print what is wrong and trap: a violated property. */
void fuzz_fail(const char *what, const char *detail);

#endif
