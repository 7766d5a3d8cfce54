SUMMARY = "Measures the latency between the CPUs of this machine, and of its memory"
DESCRIPTION = "One binary without dependencies that hands a cache line between every pair of CPUs. \
It prints a matrix, or records for fleet, which measures many machines over SSH."
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://../LICENSE;md5=f68279ae2589a44ed0a5b1e9051d828a"

# The checkout that this layer lies in.
inherit externalsrc
EXTERNALSRC = "${@os.path.abspath(d.getVar('THISDIR') + '/../../../..')}"
EXTERNALSRC_SYMLINKS = ""

COMPATIBLE_HOST = "(aarch64|arm|i.86|loongarch64|powerpc64le|riscv64|s390x|x86_64)-.*linux.*"
COMPATIBLE_HOST:armv4 = "null"
COMPATIBLE_HOST:armv5 = "null"
COMPATIBLE_HOST:armv6 = "null"
COMPATIBLE_HOST:x86-x32 = "null"
FLEET_ARCH = "${TARGET_ARCH}"
FLEET_ARCH:arm = "armv7"
FLEET_ARCH:powerpc64le = "ppc64le"
FLEET_ARCH:x86 = "i386"
# The timed loops are Arm instructions.
ARM_INSTRUCTION_SET = "arm"

do_compile() {
	oe_runmake -C ${S} TARGET=linux-${FLEET_ARCH} OUT=${B}/fleet-agent CC="${CC}" CFLAGS="${CFLAGS}" LDFLAGS="${LDFLAGS}"
}

do_install() {
	install -d ${D}${bindir}
	install -m 0755 ${B}/fleet-agent ${D}${bindir}/
}
