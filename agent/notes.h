/* notes.h: sentences for the person that come up before there is a place to say them. */
#ifndef FLEET_NOTES_H
#define FLEET_NOTES_H

#include <stddef.h>

enum { NOTES_MAX = 8, NOTE_ROOM = 300 };

struct notes {
	size_t count;
	char text[NOTES_MAX][NOTE_ROOM];
};

void notes_add(struct notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
