/* A STAND-IN, not QNX: the C library's own, and the one name beyond POSIX that QNX documents. */
#include_next <sys/mman.h>
#ifndef MAP_ANON
#define MAP_ANON 0x20
#endif
