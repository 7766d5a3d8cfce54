/*
 * lock.c: a record lock of POSIX on a file anybody may open. The kernel lets it go with the process
 * that holds it, so it cannot be stale; what is in the file is for the next one's message. */
#include "machine/lock.h"

#include "base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CLAIM_ROOM = 300,
	SUPERSEDE_S = 10, /* how long an older agent of the same run has to end */
	LOOK_MS = 50,
};

static const char *const places[] = {"/tmp/fleet-agent.lock", "/var/tmp/fleet-agent.lock",
				     "/data/local/tmp/fleet-agent.lock", /* Android */
				     "/dev/shmem/fleet-agent.lock"};

/* Reports whether it is a file. One in QNX's /dev/shmem is of the kind "name", not regular, so
 * whatever is of none of these kinds counts. */
static bool is_file(const struct stat *file)
{
	mode_t mode = file->st_mode;

	return !(S_ISDIR(mode) || S_ISCHR(mode) || S_ISBLK(mode) || S_ISFIFO(mode) ||
		 S_ISLNK(mode) || S_ISSOCK(mode));
}

/* Opens the file, or makes it only if it is missing: Linux forbids O_CREAT on another user's file
 * in a shared directory (fs.protected_regular). Refuses a link, which could lead us to somebody's
 * file. Returns the descriptor or -errno. */
static int open_file(const char *path)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	struct stat file;
	int fd = open(path, flags);

	if (fd < 0 && errno == ENOENT) {
		fd = open(path, flags | O_CREAT | O_EXCL, 0666);
		if (fd >= 0)
			(void)fchmod(fd, 0666); /* the umask is private, the lock is not */
		else if (errno == EEXIST)
			fd = open(path, flags);
	}
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &file) && is_file(&file) && file.st_nlink <= 1)
		return fd;
	close(fd);
	return -EINVAL;
}

/* Opens a file, and checks that it can be locked: those in QNX's /dev/shmem cannot, and /tmp may be
 * there. Returns the descriptor or -errno. */
static int open_lockable(const char *path)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open_file(path);

	if (fd < 0 || !fcntl(fd, F_GETLK, &lock))
		return fd;
	int err = -errno;

	close(fd);
	return err;
}

static int open_first_lockable(void)
{
	const char *chosen = getenv("FLEET_AGENT_LOCK");
	int err = -ENOENT;

	if (chosen && *chosen)
		return open_lockable(chosen);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		int fd = open_lockable(places[i]);

		if (fd >= 0)
			return fd;
		if (fd != -ENOENT)
			err = fd;
	}
	return err;
}

/* Returns 0 if it took the lock, else -errno; does not wait. */
static int try_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_SETLK, &lock) ? -errno : 0;
}

/* Returns the process that holds the lock; 0 if it is free by now, or in a place we cannot see. */
static pid_t find_holder(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK || lock.l_pid < 0)
		return 0;
	return lock.l_pid;
}

/* The text that a holder writes: "PID RUN WHO". */
struct claim {
	intmax_t pid;
	char text[CLAIM_ROOM];
};

static void read_claim(int fd, struct claim *claim)
{
	char data[CLAIM_ROOM];
	ssize_t length = pread(fd, data, sizeof data - 1, 0);
	char *end;

	data[length > 0 ? length : 0] = '\0';
	claim->pid = strtoimax(data, &end, 10);
	snprintf(claim->text, sizeof claim->text, "%s", *end == ' ' ? end + 1 : "");
	for (char *letter = claim->text; *letter; letter++)
		if ((unsigned char)*letter < ' ' || *letter == 0x7f)
			*letter = '?';
}

/* Writes the claim into the file. If that fails, the lock holds; only a message lacks the text. */
static void write_claim(int fd, const char *claim)
{
	char data[CLAIM_ROOM];
	int length = snprintf(data, sizeof data, "%jd %s", (intmax_t)getpid(), claim);

	if (length >= (int)sizeof data)
		length = sizeof data - 1;
	if (!ftruncate(fd, 0))
		(void)!pwrite(fd, data, (size_t)length, 0);
}

/* Reports whether two claims, "RUN WHO", are of one run. */
static bool is_same_run(const char *claim, const char *other)
{
	size_t length = strcspn(claim, " ");

	return length && strcspn(other, " ") == length && !strncmp(claim, other, length);
}

static int refuse_locked(const struct claim *claim, pid_t holder, struct refusal *refusal)
{
	const char *who = claim->text + strcspn(claim->text, " ");

	if (claim->pid != holder || !*who)
		return refuse(refusal, EXIT_LOCKED,
			      "another agent (process %jd) measures on this machine",
			      (intmax_t)holder);
	return refuse(refusal, EXIT_LOCKED,
		      "this machine is being measured for%s (run %.*s, process %jd)", who,
		      (int)(who - claim->text), claim->text, (intmax_t)holder);
}

/* Takes the lock, ending an older agent of the same run. Returns -1 if refused; *err: 0 if the lock
 * is held, else why none can be had. */
static int lock_or_refuse(int fd, const char *text, int *err, struct refusal *refusal)
{
	int64_t give_up_ns = now_ns() + SUPERSEDE_S * NS_PER_S;
	struct claim claim;

	while ((*err = try_lock(fd)) == -EACCES || *err == -EAGAIN) {
		pid_t holder = find_holder(fd);

		read_claim(fd, &claim);
		/* The kernel knows the holder; the text may still be the last one's. */
		bool ours = holder > 0 && claim.pid == holder && is_same_run(text, claim.text);

		if (ours) {
			(void)kill(holder, SIGTERM);
			(void)kill(holder, SIGCONT); /* a stopped process takes no other signal */
		}
		if ((holder && !ours) || now_ns() >= give_up_ns)
			return refuse_locked(&claim, holder, refusal);
		if (stop_wait(-1, 0, now_ns() + LOOK_MS * NS_PER_MS) == WAIT_STOP)
			return refuse(refusal, EXIT_UNFINISHED, "ended early: %s", stop_reason());
	}
	return 0;
}

int lock_machine(const char *text, struct notes *notes, struct refusal *refusal)
{
	int fd, err;

	if (!text)
		return 0;
	err = fd = open_first_lockable();
	if (fd >= 0 && lock_or_refuse(fd, text, &err, refusal))
		return -1;
	if (fd >= 0 && !err) {
		write_claim(fd, text);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	notes_add(notes,
		  "The machine lock could not be taken (%s): another fleet may measure here at the "
		  "same time, and both would be wrong.",
		  strerror(-err));
	return 0;
}
