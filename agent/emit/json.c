/* json.c: see json.h. */
#include "emit/json.h"

#include "emit/emit.h"

#include <inttypes.h>

static struct text record;
static bool follows; /* something in the same object or list */

static void add_key(const char *key)
{
	text_add(&record, key ? "%s\"%s\":" : "%s", follows ? "," : "", key);
	follows = true;
}

static void add_string(const char *string)
{
	text_add(&record, "\"");
	for (; *string; string++) {
		unsigned char c = (unsigned char)*string;

		if (c == '"' || c == '\\')
			text_add(&record, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			text_add(&record, "\\u%04x", c);
		else
			text_add(&record, "%c", c);
	}
	text_add(&record, "\"");
}

void json_begin(const char *name)
{
	json_open(NULL, '{');
	json_string("record", name);
}

void json_write_record(void)
{
	text_add(&record, "}\n");
	emit_write(&record);
	follows = false;
}

void json_open(const char *key, char bracket)
{
	add_key(key);
	text_add(&record, "%c", bracket);
	follows = false;
}

void json_close(char bracket)
{
	text_add(&record, "%c", bracket);
	follows = true;
}

void json_null(const char *key)
{
	add_key(key);
	text_add(&record, "null");
}

void json_flag(const char *key, bool value)
{
	add_key(key);
	text_add(&record, value ? "true" : "false");
}

void json_count(const char *key, uint64_t value)
{
	add_key(key);
	text_add(&record, "%" PRIu64, value);
}

void json_number(const char *key, int64_t value)
{
	add_key(key);
	text_add(&record, "%" PRId64, value);
}

void json_string(const char *key, const char *value)
{
	if (!value) {
		json_null(key);
		return;
	}
	add_key(key);
	add_string(value);
}

void json_count_or_null(const char *key, uint64_t value)
{
	if (value)
		json_count(key, value);
	else
		json_null(key);
}

void json_number_or_null(const char *key, int64_t value)
{
	if (value >= 0)
		json_number(key, value);
	else
		json_null(key);
}

void json_counts(const char *key, const uint64_t *values, size_t count)
{
	json_open(key, '[');
	for (size_t i = 0; i < count; i++)
		json_count(NULL, values[i]);
	json_close(']');
}

void json_numbers(const char *key, const int64_t *values, size_t count)
{
	json_open(key, '[');
	for (size_t i = 0; i < count; i++)
		json_number(NULL, values[i]);
	json_close(']');
}

void json_cpus(const char *key, const int *cpus, size_t count)
{
	json_open(key, '[');
	for (size_t i = 0; i < count; i++)
		json_number(NULL, cpus[i]);
	json_close(']');
}
