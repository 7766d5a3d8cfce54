/* emit.c: the choice of a format. */
#include "emit/emit.h"

#include <string.h>

const struct format *emit_find_format(const char *name)
{
	const struct format *const formats[] = {&emit_jsonl,        &emit_csv,
						&emit_matrix,       &emit_c2clat,
						&emit_core_latency, &emit_core_to_core_latency};

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}
