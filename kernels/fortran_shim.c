/*
** The one routine of libgfortran that LAPACK calls, so that gx needs no Fortran runtime.
**
** LAPACK joins its option letters into one string before it asks ILAENV for a block size
** ("OPTS = SIDE // TRANS"); gfortran compiles that to this call.  Used only where LAPACK is linked
** statically; hidden like everything else in gx.  Weak: an application that links libgx.a may have
** the Fortran runtime, whose own routine is then the one.
*/
#include <stddef.h>
#include <string.h>

void __attribute__((weak)) _gfortran_concat_string(size_t dest_bytes, char *dest, size_t a_bytes,
                                                   const char *a, size_t b_bytes, const char *b);

/* dest = a // b, cut or filled up with blanks to dest_bytes, as Fortran assigns strings. */
void _gfortran_concat_string(size_t dest_bytes, char *dest, size_t a_bytes, const char *a,
                             size_t b_bytes, const char *b)
{
    size_t from_a = a_bytes < dest_bytes ? a_bytes : dest_bytes;
    size_t room = dest_bytes - from_a;
    size_t from_b = b_bytes < room ? b_bytes : room;
    if (from_a > 0) {
        memcpy(dest, a, from_a);
    }
    if (from_b > 0) {
        memcpy(dest + from_a, b, from_b);
    }
    if (room > from_b) {
        memset(dest + from_a + from_b, ' ', room - from_b);
    }
}
