/* on_cpu.c: see on_cpu.h. */
#include "machine/on_cpu.h"

#include "native/native.h"

#include <errno.h>
#include <pthread.h>

struct task {
	int cpu, result;
	int (*work)(int cpu, void *of);
	void *of;
};

static void *carry_out(void *arg)
{
	struct task *task = arg;

	task->result = os_pin_self(task->cpu);
	if (!task->result)
		task->result = task->work(task->cpu, task->of);
	return NULL;
}

int on_cpu(int cpu, int (*work)(int cpu, void *of), void *of)
{
	struct task task = {.cpu = cpu, .work = work, .of = of};
	pthread_t thread;
	int err = pthread_create(&thread, NULL, carry_out, &task);

	if (err)
		return err == EPERM || err == EACCES ? -ECHILD : -err;
	pthread_join(thread, NULL);
	return task.result;
}
