/* json.h: a record as JSON, put together key by key; one at a time. Items of a list: a null key. */
#ifndef FLEET_EMIT_JSON_H
#define FLEET_EMIT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void json_begin(const char *record);

/* Writes the record to stdout. */
void json_write_record(void);

/* Begin and end an object, '{' and '}', or a list, '[' and ']', within the record. */
void json_open(const char *key, char bracket);
void json_close(char bracket);

void json_null(const char *key);
void json_flag(const char *key, bool value);
void json_count(const char *key, uint64_t value);
void json_number(const char *key, int64_t value);

/* Adds a string; JSON's null for a null pointer. */
void json_string(const char *key, const char *value);

/* Add a count, or null for 0; and a number, or null for a negative one. */
void json_count_or_null(const char *key, uint64_t value);
void json_number_or_null(const char *key, int64_t value);

void json_counts(const char *key, const uint64_t *values, size_t count);
void json_numbers(const char *key, const int64_t *values, size_t count);
void json_cpus(const char *key, const int *cpus, size_t count);

#endif
