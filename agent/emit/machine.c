/* machine.c: the records of --machine: what the OS tells programs about its CPUs. */
#include "machine/facts.h"

#include "base/build.h"
#include "emit/emit.h"
#include "emit/json.h"

static void add_caches(const struct cpu_facts *facts)
{
	json_open("caches", '[');
	for (size_t i = 0; i < facts->cache_count; i++) {
		const struct cpu_cache *cache = &facts->caches[i];

		json_open(NULL, '{');
		json_number("level", cache->level);
		json_string("kind", cache->kind);
		json_number_or_null("bytes", cache->bytes);
		json_number_or_null("line_bytes", cache->line_bytes);
		json_number_or_null("group", cache->group);
		json_close('}');
	}
	json_close(']');
}

static void print_cpu(int cpu, const struct cpu_facts *facts)
{
	json_begin("cpu");
	json_number("cpu", cpu);
	json_string("name", facts->name[0] ? facts->name : NULL);
	json_number_or_null("mhz", facts->mhz);
	json_number_or_null("hardware_id", facts->hardware_id);
	json_number_or_null("core", facts->core);
	json_number_or_null("cluster", facts->cluster);
	json_number_or_null("die", facts->die);
	json_number_or_null("package", facts->package);
	add_caches(facts);
	json_write_record();
}

static void print_machine(const struct machine *machine)
{
	json_begin("machine");
	json_count("protocol", 1);
	json_string("build", FLEET_BUILD_ID);
	json_string("os", os_name);
	json_string("arch", arch_name);
	json_count("cpus", machine->cpu_count);
	json_string("memory_limit", *machine->limits.memory ? machine->limits.memory : NULL);
	json_string("cpu_limit", *machine->limits.cpu_time ? machine->limits.cpu_time : NULL);
	json_number_or_null("memory_kills", machine->limits.kills);
	json_write_record();
}

int emit_machine(const struct machine *machine)
{
	struct cpu_facts facts;

	for (size_t i = 0; i < machine->cpu_count; i++) {
		int err = machine_ask_cpu(machine->cpus[i], &facts);

		if (err)
			return err;
		if (!i)
			print_machine(machine);
		print_cpu(machine->cpus[i], &facts);
	}
	return 0;
}
