/* machine.c: a thread on each CPU asks what it is; the answers become records. */
#include "machine.h"

#include "build.h"
#include "emit.h"
#include "native/native.h"
#include "text.h"

#include <inttypes.h>
#include <pthread.h>

struct question {
	int cpu;
	struct cpu_facts facts;
	int result;
};

static struct text line;

static void *ask(void *arg)
{
	struct question *question = arg;

	question->result = os_pin_self(question->cpu);
	if (!question->result)
		question->result = os_cpu_describe(question->cpu, &question->facts);
	return NULL;
}

int machine_describe(int cpu, struct cpu_facts *facts)
{
	struct question question = {.cpu = cpu,
				    .facts = {.mhz = UNKNOWN,
					      .hardware_id = UNKNOWN,
					      .capacity = UNKNOWN,
					      .core = UNKNOWN,
					      .cluster = UNKNOWN,
					      .die = UNKNOWN,
					      .package = UNKNOWN}};
	pthread_t thread;
	int err = -pthread_create(&thread, NULL, ask, &question);

	if (err)
		return err;
	pthread_join(thread, NULL);
	*facts = question.facts;
	return question.result;
}

static void add(const char *key, int64_t value)
{
	if (value < 0)
		text_add(&line, ",\"%s\":null", key);
	else
		text_add(&line, ",\"%s\":%" PRId64, key, value);
}

static void add_caches(const struct cpu_facts *facts)
{
	text_add(&line, ",\"caches\":[");
	for (size_t i = 0; i < facts->cache_count; i++) {
		const struct cpu_cache *cache = &facts->caches[i];

		text_add(&line, "%s{\"level\":%d,\"kind\":", i ? "," : "", cache->level);
		text_add_json(&line, cache->kind);
		add("bytes", cache->bytes);
		add("line_bytes", cache->line_bytes);
		add("group", cache->group);
		text_add(&line, "}");
	}
	text_add(&line, "]");
}

static void print_cpu(int cpu, const struct cpu_facts *facts)
{
	text_add(&line, "{\"record\":\"cpu\",\"cpu\":%d,\"name\":", cpu);
	text_add_json(&line, facts->name[0] ? facts->name : NULL);
	add("mhz", facts->mhz);
	add("hardware_id", facts->hardware_id);
	add("core", facts->core);
	add("cluster", facts->cluster);
	add("die", facts->die);
	add("package", facts->package);
	add_caches(facts);
	text_add(&line, "}\n");
	emit_write(&line);
}

static void print_machine(size_t count)
{
	text_add(&line, "{\"record\":\"machine\",\"protocol\":1,\"build\":");
	text_add_json(&line, FLEET_BUILD_ID);
	text_add(&line, ",\"os\":");
	text_add_json(&line, os_name);
	text_add(&line, ",\"arch\":");
	text_add_json(&line, arch_name);
	add("cpus", (int64_t)count);
	text_add(&line, "}\n");
	emit_write(&line);
}

int machine_print(const int *cpus, size_t count)
{
	struct cpu_facts facts;

	for (size_t i = 0; i < count; i++) {
		int err = machine_describe(cpus[i], &facts);

		if (err)
			return err;
		if (!i)
			print_machine(count);
		print_cpu(cpus[i], &facts);
	}
	return 0;
}
