/* linux_amx.h: Linux's permission for tiles. For native/linux_cpu.h only. */
#ifndef FLEET_LINUX_AMX_H
#define FLEET_LINUX_AMX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Asks Linux to permit tiles, for the process, before any thread starts; children inherit it
 * (Documentation/arch/x86/xstate.rst, since 5.16). Returns null if permitted, else why not. */
static const char *linux_permit_amx(void)
{
	enum { GET_PERMISSION = 0x1022, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
	uint64_t permitted = 0;

	if (!syscall(SYS_arch_prctl, GET_PERMISSION, &permitted) && permitted >> TILE_DATA & 1)
		return NULL;
	if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA))
		return "the kernel does not permit tiles (arch_prctl, since Linux 5.16)";
	if (syscall(SYS_arch_prctl, GET_PERMISSION, &permitted) || !(permitted >> TILE_DATA & 1))
		return "the kernel says that it permits tiles, and then does not (arch_prctl)";
	return NULL;
}
#endif
