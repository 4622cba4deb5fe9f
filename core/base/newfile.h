/*
** A file that appears whole: it is made under another name in the same folder and renamed when it
** is on the disk.
*/
#ifndef GX_NEWFILE_H
#define GX_NEWFILE_H

#include <stdbool.h>
#include <stddef.h>

enum { GX_NEWFILE_NAME = 40 }; /* the most that the name below has more than its folder */

/*
** A name that nothing in the folder of path is likely to have, "<folder>/.gx-<16 digits>.tmp":
** another one with every call.  Returns its length; bytes or more: it does not fit.
*/
size_t gx_newfile_name(const char *path, char *name, size_t bytes);

/* Give the file its name.  Without overwrite nothing there is replaced: false, errno EEXIST. */
bool gx_newfile_publish(const char *name, const char *path, bool overwrite);

/* Whatever was renamed to path stays after a loss of power, where the folder can be synced. */
void gx_newfile_sync_folder(const char *path);

#endif
