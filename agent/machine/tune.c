/* tune.c: changing settings under the eyes of a guardian. */
#include "machine/tune.h"

#include "base/text.h"
#include "native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One setting, as it was before. */
struct saved_setting {
	enum setting setting;
	int cpu;
	char before[SETTING_ROOM];
};

static struct saved_setting *saved;
static size_t saved_count;
static pid_t guardian;
static int lifeline = -1; /* our end of the guardian's pipe */

static const char *setting_name(enum setting setting)
{
	return setting == SETTING_GOVERNOR ? "governor" : "boost";
}

/* Leaves our session, streams and signals: what ends us must not end the guardian. */
static void detach_from_parent(void)
{
	const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGQUIT};
	int null = open("/dev/null", O_RDWR);

	setsid();
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		signal(signals[i], SIG_IGN);
	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
}

static bool restore_settings(void)
{
	bool all = true;

	for (size_t i = saved_count; i-- > 0;)
		if (os_setting_write(saved[i].setting, saved[i].cpu, saved[i].before))
			all = false;
	return all;
}

static void run_guardian(int fd)
{
	char byte;
	ssize_t got;

	detach_from_parent();
	do {
		got = read(fd, &byte, 1);
	} while (got > 0 || (got < 0 && errno == EINTR));
	_exit(restore_settings() ? 0 : 1);
}

/* Starts the guardian, which waits for the other end of its pipe to close. Returns 0 or -errno. */
static int start_guardian(void)
{
	int ends[2];

	if (pipe(ends) || fcntl(ends[1], F_SETFD, FD_CLOEXEC))
		return -errno;
	guardian = fork();
	if (guardian < 0) {
		guardian = 0;
		return -errno;
	}
	if (guardian == 0) {
		close(ends[1]);
		run_guardian(ends[0]);
	}
	close(ends[0]);
	lifeline = ends[1];
	return 0;
}

/* Notes the value that a setting has now. Returns 0, or -1 and a refusal. */
static int save_setting(enum setting setting, int cpu, struct refusal *refusal)
{
	struct saved_setting *now = &saved[saved_count];

	*now = (struct saved_setting){.setting = setting, .cpu = cpu};
	int err = os_setting_read(setting, cpu, now->before);
	if (err == -ENOTSUP)
		return refuse(refusal, EXIT_OPTIONS, "this machine lets nobody set its %s",
			      setting_name(setting));
	if (err)
		return refuse(refusal, EXIT_OTHER, "cannot read the %s: %s", setting_name(setting),
			      strerror(-err));
	saved_count++;
	return 0;
}

static int change_setting(const struct saved_setting *setting, const char *value,
			  struct refusal *refusal)
{
	int err = os_setting_write(setting->setting, setting->cpu, value);

	if (!err)
		return 0;
	if (err == -EACCES || err == -EPERM || err == -EROFS)
		return refuse(refusal, EXIT_OPTIONS,
			      "may not set the %s (%s): run as root, or set it beforehand",
			      setting_name(setting->setting), strerror(-err));
	return refuse(refusal, EXIT_OPTIONS, "cannot set the %s to '%s': %s",
		      setting_name(setting->setting), value, strerror(-err));
}

/* Adds the values that the setting had on all CPUs before, each once: "powersave, schedutil". */
static void add_values(struct text *text, enum setting setting)
{
	const char *separator = "";

	for (size_t i = 0; i < saved_count; i++) {
		bool first = saved[i].setting == setting;

		for (size_t j = 0; first && j < i; j++)
			first = saved[j].setting != setting ||
				strcmp(saved[j].before, saved[i].before);
		if (!first)
			continue;
		text_add(text, "%s%s", separator, saved[i].before);
		separator = ", ";
	}
}

static void add_change_note(const struct tuning *tuning, enum setting setting, const char *value,
			    struct notes *notes)
{
	struct text text = {0};

	if (!value)
		return;
	text_add(&text, "The %s", setting_name(setting));
	if (setting == SETTING_GOVERNOR) {
		text_add(&text, " of CPUs ");
		text_add_cpus(&text, tuning->cpus, tuning->cpu_count);
	}
	text_add(&text, " is %s for the time of this run; before and after: ", value);
	add_values(&text, setting);
	if (!text.failed)
		notes_add(notes, "%s.", text.data);
	text_free(&text);
}

static int save_settings(const struct tuning *tuning, struct refusal *refusal)
{
	int err = 0;

	saved = calloc(tuning->cpu_count + 1, sizeof *saved);
	if (!saved)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	if (tuning->boost)
		err = save_setting(SETTING_BOOST, 0, refusal);
	for (size_t i = 0; !err && tuning->governor && i < tuning->cpu_count; i++)
		err = save_setting(SETTING_GOVERNOR, tuning->cpus[i], refusal);
	return err;
}

int tune_apply(const struct tuning *tuning, struct notes *notes, struct refusal *refusal)
{
	if (!tuning->governor && !tuning->boost)
		return 0;
	if (save_settings(tuning, refusal))
		return -1;
	int err = start_guardian();

	if (err)
		return refuse(refusal, EXIT_OTHER, "cannot start who would put settings back: %s",
			      strerror(-err));
	for (size_t i = 0; i < saved_count; i++)
		if (change_setting(&saved[i],
				   saved[i].setting == SETTING_GOVERNOR ? tuning->governor
									: tuning->boost,
				   refusal)) {
			tune_restore();
			return -1;
		}
	add_change_note(tuning, SETTING_GOVERNOR, tuning->governor, notes);
	add_change_note(tuning, SETTING_BOOST, tuning->boost, notes);
	return 0;
}

int tune_restore(void)
{
	int status = 0;

	if (lifeline >= 0)
		close(lifeline);
	lifeline = -1;
	while (guardian && waitpid(guardian, &status, 0) < 0 && errno == EINTR)
		;
	guardian = 0;
	free(saved);
	saved = NULL;
	saved_count = 0;
	return status ? -EIO : 0;
}
