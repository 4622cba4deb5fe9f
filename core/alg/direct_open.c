/*
** SuiteSparse, opened at run time: see direct_int.h.
**
** A library is opened by dlopen() when a call wants it, from the folder of the setting
** suitesparse_path (of the environment or the application) or, where that is empty, from where the
** loader looks; it stays in the process once it has been opened, so that opening it again costs
** microseconds.  Nothing of gx links to it, and none of its headers is needed: what is called is
** declared in direct_umfpack.c and direct_cholmod.c.
*/
#include "direct_int.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = GX_SETTING_TEXT + 64 };

/* Each library's names, the newest first, and what installs it. */
static const struct {
    const char *name, *package;
    const char *soname[4];
} libraries[] = {
    [GX_DIRECT_UMFPACK] = {"UMFPACK",
                           "libumfpack5 or libumfpack6",
                           {"libumfpack.so.6", "libumfpack.so.5"}},
    [GX_DIRECT_CHOLMOD] = {"CHOLMOD",
                           "libcholmod3 or libcholmod5",
                           {"libcholmod.so.5", "libcholmod.so.4", "libcholmod.so.3"}},
};

gx_code gx_direct_open(gx_run *run, gx_direct_kind kind, void **library, gx_err *err)
{
    const char *folder = run->ctx->config.text[GX_SET_SUITESPARSE_PATH];
    char path[PATH_BYTES];
    bool is_missing = true; // and not there but refused by the loader
    *library = NULL;
    for (int k = 0; libraries[kind].soname[k] != NULL; k++) {
        snprintf(path, sizeof path, "%s%s%s", folder, folder[0] == '\0' ? "" : "/",
                 libraries[kind].soname[k]);
        *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (*library != NULL) {
            run->ctx->is_suitesparse_open = true;
            return GX_OK;
        }
        const char *text = dlerror();
        is_missing = is_missing && text != NULL && strstr(text, "No such file") != NULL;
    }
    if (!is_missing) { // short of memory, mostly: another method is not what was asked for
        return gx_fail(err, GX_NOMEM,
                       "out of memory, or damaged: %s of SuiteSparse cannot be opened",
                       libraries[kind].name);
    }
    return gx_fail(err, GX_UNSUPPORTED,
                   "a sparse direct solve needs %s of SuiteSparse, and %s is not in %s: install "
                   "%s, set GX_SUITESPARSE_PATH, or take an iterative \"method\"",
                   libraries[kind].name, libraries[kind].soname[0],
                   folder[0] == '\0' ? "the usual places" : folder, libraries[kind].package);
}

gx_code gx_direct_bind(void *library, const gx_direct_symbol *symbols, gx_err *err)
{
    for (; symbols->name != NULL; symbols++) {
        void *symbol = dlsym(library, symbols->name);
        if (symbol == NULL) {
            return gx_fail(err, GX_UNSUPPORTED, "the SuiteSparse found here has no %s",
                           symbols->name);
        }
        memcpy(symbols->place, &symbol, sizeof symbol); // ISO C casts no object to a function
    }
    return GX_OK;
}

gx_code gx_direct_reserve(gx_direct *F, double bytes, gx_err *err)
{
    size_t size = bytes < 9e18 ? (size_t)bytes : SIZE_MAX / 2;
    GX_TRY(gx_mem_reserve(F->run->ctx->mem, size, "a sparse factorisation", err));
    F->reserved += size;
    return GX_OK;
}
