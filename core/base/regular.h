/*
** Files that a path of somebody's names: regular ones, and opened without waiting.
**
** A path may lead to a FIFO, of which open() waits for the other end; to a device, which does
** things when it is opened and may have no end; to a folder or a socket.  gx reads and writes none
** of these, so each is looked at before it is opened, and again when it is open.
*/
#ifndef GX_REGULAR_H
#define GX_REGULAR_H

#include "types.h"

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

#endif
