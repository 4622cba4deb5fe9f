/*
** Functions that the C library of 2018 (glibc 2.28) lacks, made of those it has.
**
** gx.so and gx_cuda.so are linked with the old versions of glibc's functions (ext/old_glibc.sh), so
** that they load on every distribution from then on.  What headers of today call and a library of
** then does not have is here, hidden: stat() and its kin, which before 2.33 were reached as
** __xstat() with a version of struct stat (0, the kernel's own, is right for every machine of 64
** bits), and the names under which headers since 2.38 call strtol() and sscanf().  No part of
** libgx.a: the application's link decides which C library that is for.
*/
#include <stdarg.h>
#include <sys/stat.h>

#if defined(__GLIBC__)

int __xstat(int version, const char *path, struct stat *found);
int __lxstat(int version, const char *path, struct stat *found);
int __fxstat(int version, int fd, struct stat *found);

int stat(const char *path, struct stat *found)
{
    return __xstat(0, path, found);
}

int lstat(const char *path, struct stat *found)
{
    return __lxstat(0, path, found);
}

int fstat(int fd, struct stat *found)
{
    return __fxstat(0, fd, found);
}

// Declared here by the names the linker sees: the headers' strtol() may be __isoc23_strtol().
long old_strtol(const char *text, char **end, int base) __asm__("strtol");
long long old_strtoll(const char *text, char **end, int base) __asm__("strtoll");
unsigned long old_strtoul(const char *text, char **end, int base) __asm__("strtoul");
unsigned long long old_strtoull(const char *text, char **end, int base) __asm__("strtoull");
int old_vsscanf(const char *text, const char *format, va_list ap) __asm__("__isoc99_vsscanf");

long new_strtol(const char *text, char **end, int base) __asm__("__isoc23_strtol");
long long new_strtoll(const char *text, char **end, int base) __asm__("__isoc23_strtoll");
unsigned long new_strtoul(const char *text, char **end, int base) __asm__("__isoc23_strtoul");
unsigned long long new_strtoull(const char *text, char **end,
                                int base) __asm__("__isoc23_strtoull");
int new_sscanf(const char *text, const char *format, ...) __asm__("__isoc23_sscanf");

long new_strtol(const char *text, char **end, int base)
{
    return old_strtol(text, end, base);
}

long long new_strtoll(const char *text, char **end, int base)
{
    return old_strtoll(text, end, base);
}

unsigned long new_strtoul(const char *text, char **end, int base)
{
    return old_strtoul(text, end, base);
}

unsigned long long new_strtoull(const char *text, char **end, int base)
{
    return old_strtoull(text, end, base);
}

int new_sscanf(const char *text, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int read = old_vsscanf(text, format, ap);
    va_end(ap);
    return read;
}

#endif
