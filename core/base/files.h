/*
** Files that a path of somebody's names, and files that appear whole.
**
** A path may lead to a FIFO, of which open() waits for the other end; to a device, which does
** things when it is opened and may have no end; to a folder or a socket.  gx reads and writes none
** of these, so each is looked at before it is opened, and again when it is open.
*/
#ifndef GX_FILES_H
#define GX_FILES_H

#include <stdbool.h>
#include <stddef.h>

struct stat;

/*
** What is there if not a regular file: "a folder", "a FIFO", "a device", "a socket", "a link" (only
** where links are not followed); NULL where it is one, or nothing is there, or it cannot be seen.
*/
const char *gx_file_oddity(const char *path, bool follows_links);

/*
** open(), of a regular file alone: a descriptor, of which fstat() has been asked for *about; -1
** with errno, or with *oddity as above.  flags are open()'s; O_NOFOLLOW refuses a link.  No file is
** made.
*/
int gx_open_regular(const char *path, int flags, struct stat *about, const char **oddity);

/*
** A file that appears whole is made under another name in the same folder and renamed when it is on
** the disk.
*/
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
