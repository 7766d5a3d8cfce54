/* x86_64: products of matrices on tiles, and loads of tiles (Intel SDM 1, chapter 18). See
 * native.h.
 *
 * The instructions are bytes: assemblers have them since 2020 only, and no compiler flag shall
 * decide. So registers are fixed. Tiles 0 to 3 are sums, 4 rows of A, 5 to 7 columns of B: 16 rows
 * by 64 columns. A step is 64 bytes of k.
 *
 * A tile that is stored waits for its last product, and products behind it in the program wait too.
 * So the sums of a strip are stored one by one within the first step of the next. */
#include "x86_64_amx.h"

enum { STEP_BYTES = 4 << 10, PART_STEPS = (32 << 10) / STEP_BYTES };

/* ldtilecfg (%rax); tilerelease */
#define CONFIGURE ".byte 0xc4, 0xe2, 0x78, 0x49, 0x00\n\t"
#define RELEASE   ".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0\n\t"

/* tilezero %tmm0 to %tmm3 */
#define ZERO_0 ".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc0\n\t"
#define ZERO_1 ".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc8\n\t"
#define ZERO_2 ".byte 0xc4, 0xe2, 0x7b, 0x49, 0xd0\n\t"
#define ZERO_3 ".byte 0xc4, 0xe2, 0x7b, 0x49, 0xd8\n\t"

/* tileloaddt1 (%rsi,%rdx,1), %tmm4: lines of A that go by shall not drive B out of L1 */
#define LOAD_A ".byte 0xc4, 0xe2, 0x79, 0x4b, 0x24, 0x16\n\t"

/* tileloadd (%rdi,%rcx,1), %tmm5; 0x400(%rdi,%rcx,1), %tmm6; 0x800..., %tmm7; 0xc00..., %tmm5 */
#define LOAD_B0 ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x2c, 0x0f\n\t"
#define LOAD_B1 ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0xb4, 0x0f, 0x00, 0x04, 0x00, 0x00\n\t"
#define LOAD_B2 ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0xbc, 0x0f, 0x00, 0x08, 0x00, 0x00\n\t"
#define LOAD_B3 ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0xac, 0x0f, 0x00, 0x0c, 0x00, 0x00\n\t"

/* tileloadd (%r11,%r10,1), %tmm0; 0x40(%r11,%r10,1), %tmm1; 0x80..., %tmm2; 0xc0..., %tmm3 */
#define LOAD_0 ".byte 0xc4, 0x82, 0x7b, 0x4b, 0x04, 0x13\n\t"
#define LOAD_1 ".byte 0xc4, 0x82, 0x7b, 0x4b, 0x4c, 0x13, 0x40\n\t"
#define LOAD_2 ".byte 0xc4, 0x82, 0x7b, 0x4b, 0x94, 0x13, 0x80, 0x00, 0x00, 0x00\n\t"
#define LOAD_3 ".byte 0xc4, 0x82, 0x7b, 0x4b, 0x9c, 0x13, 0xc0, 0x00, 0x00, 0x00\n\t"

/* tilestored of the same to (%r9,%r10,1) and on */
#define STORE_0 ".byte 0xc4, 0x82, 0x7a, 0x4b, 0x04, 0x11\n\t"
#define STORE_1 ".byte 0xc4, 0x82, 0x7a, 0x4b, 0x4c, 0x11, 0x40\n\t"
#define STORE_2 ".byte 0xc4, 0x82, 0x7a, 0x4b, 0x94, 0x11, 0x80, 0x00, 0x00, 0x00\n\t"
#define STORE_3 ".byte 0xc4, 0x82, 0x7a, 0x4b, 0x9c, 0x11, 0xc0, 0x00, 0x00, 0x00\n\t"

/* tdpbf16ps (tdpbssd) %tmm5, %tmm4, %tmm0; %tmm6, ..., %tmm1; %tmm7, ..., 2; %tmm5, ..., 3 */
#define BF16_0 ".byte 0xc4, 0xe2, 0x52, 0x5c, 0xc4\n\t"
#define BF16_1 ".byte 0xc4, 0xe2, 0x4a, 0x5c, 0xcc\n\t"
#define BF16_2 ".byte 0xc4, 0xe2, 0x42, 0x5c, 0xd4\n\t"
#define BF16_3 ".byte 0xc4, 0xe2, 0x52, 0x5c, 0xdc\n\t"
#define INT8_0 ".byte 0xc4, 0xe2, 0x53, 0x5e, 0xc4\n\t"
#define INT8_1 ".byte 0xc4, 0xe2, 0x4b, 0x5e, 0xcc\n\t"
#define INT8_2 ".byte 0xc4, 0xe2, 0x43, 0x5e, 0xd4\n\t"
#define INT8_3 ".byte 0xc4, 0xe2, 0x53, 0x5e, 0xdc\n\t"

/* Prepares C before the first product of a sum. */
#define NOTHING(i)
#define STORE_CLEAR(i) STORE_##i ZERO_##i
#define STORE_LOAD(i)  STORE_##i LOAD_##i

/* A strip's lines of C, evenly over its steps: the way from L2 is busy with stores and A, and a
 * burst would hold up the loads behind it. Of this strip, or, where it is added to, of the next. */
#define C_ROW_AHEAD                                                                                \
	".irp at, 0x00,0x40,0x80,0xc0\n\t"                                                         \
	"prefetcht0 \\at(%[c])\n\t"                                                                \
	".endr\n\t"                                                                                \
	"add %%r10, %[c]\n\t"
#define BF16_AHEAD C_ROW_AHEAD
#define INT8_AHEAD ".rept 2\n\t" C_ROW_AHEAD ".endr\n\t"

#define STEP(kind, before, ahead)                                                                  \
	LOAD_A LOAD_B0 LOAD_B1 kind##_AHEAD LOAD_B2 kind##_AHEAD before(0)                         \
		kind##_0 LOAD_B3 before(1) kind##_1 before(2) kind##_2 before(3) kind##_3 ahead    \
		"add %[a_step], %%rsi\n\t"                                                         \
		"add $0x1000, %%rdi\n\t"

/* %r9: where the strip before lies in C, 0 in the first one; %r11: where this one does. */
#define CLEAR_ALL ZERO_0 ZERO_1 ZERO_2 ZERO_3
#define STORE_ALL STORE_0 STORE_1 STORE_2 STORE_3
#define NEW_STRIP                                                                                  \
	"1:\n\t"                                                                                   \
	"mov %[a], %%rsi\n\t"                                                                      \
	"mov %[b], %%rdi\n\t"                                                                      \
	"add %[a_strip], %[a]\n\t"                                                                 \
	"mov %%r11, %[c]\n\t"                                                                      \
	"add %[c_lead], %[c]\n\t"                                                                  \
	"mov %[all_steps], %[steps]\n\t"                                                           \
	"test %%r9, %%r9\n\t"                                                                      \
	"jne 3f\n\t"                                                                               \
	"cmpq $0, %[add]\n\t"                                                                      \
	"jne 2f\n\t"
#define OR_LOAD_ALL                                                                                \
	"jmp 5f\n"                                                                                 \
	"2:\n\t" LOAD_0 LOAD_1 LOAD_2 LOAD_3 "jmp 5f\n"
#define OR_STORE                                                                                   \
	"3:\n\t"                                                                                   \
	"cmpq $0, %[add]\n\t"                                                                      \
	"jne 4f\n\t"
#define OR_STORE_AND_LOAD                                                                          \
	"jmp 6f\n"                                                                                 \
	"4:\n\t"
#define OTHER_STEPS                                                                                \
	"jmp 6f\n\t"                                                                               \
	".p2align 6\n"                                                                             \
	"5:\n\t"
#define END_STRIP                                                                                  \
	"6:\n\t"                                                                                   \
	"dec %[steps]\n\t"                                                                         \
	"jne 5b\n\t"                                                                               \
	"mov %%r11, %%r9\n\t"                                                                      \
	"lea (%%r11,%%r10,8), %%r11\n\t"                                                           \
	"lea (%%r11,%%r10,8), %%r11\n\t"                                                           \
	"decq %[strips]\n\t"                                                                       \
	"jne 1b\n\t"

#define PRODUCT(kind, ahead)                                                                       \
	"xor %%r9d, %%r9d\n" NEW_STRIP CLEAR_ALL OR_LOAD_ALL OR_STORE STEP(kind, STORE_CLEAR,      \
									   ahead)                  \
	OR_STORE_AND_LOAD STEP(kind, STORE_LOAD, ahead)                                            \
	OTHER_STEPS STEP(kind, NOTHING, ahead)                                                     \
	END_STRIP STORE_ALL

#define B_AHEAD                                                                                    \
	".irp at, 0,64,128,192\n\t"                                                                \
	"prefetcht2 \\at(%[ahead])\n\t"                                                            \
	".endr\n\t"                                                                                \
	"add %[ahead_step], %[ahead]\n\t"

/* Multiplies all strips; returns how far it has prefetched. */
typedef const char *part_fn(const struct gemm_tile *tile);

/* Multiplies a long k part by part, so that a panel of B stays in L1 while A goes by. */
static void multiply_parts(const struct gemm_tile *tile, part_fn *multiply)
{
	const uint64_t parts = (tile->steps + PART_STEPS - 1) / PART_STEPS;
	struct gemm_tile left = *tile;

	for (uint64_t i = parts; i > 0; i--) {
		struct gemm_tile part = left;

		part.steps = (left.steps + i - 1) / i;
		left.ahead = multiply(&part);
		left.steps -= part.steps;
		left.a += part.steps * left.a_step;
		left.b += part.steps * STEP_BYTES;
		left.add = 1;
	}
}

#define MULTIPLY(name, kind, prefetch)                                                             \
	TIMED                                                                                      \
	const char *x86_64_gemm_##name(const struct gemm_tile *tile)                               \
	{                                                                                          \
		register const char *a_step __asm__("rsi");                                        \
		register const char *b_step __asm__("rdi");                                        \
		register char *c_before __asm__("r9");                                             \
		register char *c_strip __asm__("r11") = tile->c;                                   \
		register size_t a_row __asm__("rdx") = tile->a_row;                                \
		register size_t b_row __asm__("rcx") = 64;                                         \
		register size_t c_row __asm__("r10") = tile->c_row;                                \
		const char *a = tile->a, *c, *ahead = tile->ahead;                                 \
		/* Copies on the stack: no register is left for the tile. */                       \
		const size_t a_strip = tile->a_strip, ahead_step = tile->ahead_step;               \
		const uint64_t all_steps = tile->steps, add = tile->add;                           \
		const size_t c_lead = tile->add ? 16 * tile->c_row : 0;                            \
		uint64_t strips = tile->strips, steps;                                             \
                                                                                                   \
		__asm__ volatile(                                                                  \
			PRODUCT(kind, prefetch)                                                    \
			: "=&r"(a_step), "=&r"(b_step), "=&r"(c_before),                           \
			  "+&r"(c_strip), [a] "+&r"(a), [c] "=&r"(c), [ahead] "+&r"(ahead),        \
			  [strips] "+m"(strips), [steps] "=&r"(steps)                              \
			: "r"(a_row), "r"(b_row), "r"(c_row), [a_step] "r"(tile->a_step),          \
			  [b] "r"(tile->b), [c_lead] "m"(c_lead), [a_strip] "m"(a_strip),          \
			  [all_steps] "m"(all_steps), [add] "m"(add), [ahead_step] "m"(ahead_step) \
			: "memory", "cc");                                                         \
		return ahead;                                                                      \
	}                                                                                          \
                                                                                                   \
	static void name##_multiply(const struct gemm_tile *tile)                                  \
	{                                                                                          \
		multiply_parts(tile, x86_64_gemm_##name);                                          \
	}

MULTIPLY(amx_bf16, BF16, "")
MULTIPLY(ahead_amx_bf16, BF16, B_AHEAD)
MULTIPLY(amx_int8, INT8, "")
MULTIPLY(ahead_amx_int8, INT8, B_AHEAD)

/* ---- on tiles only --------------------------------------------------------------------------- */

enum { PRODUCTS = 16, TILE_SUMS = 16 * 16 };

#define FOUR(kind)        kind##_0 kind##_1 kind##_2 kind##_3
#define PRODUCTS_OF(kind) FOUR(kind) FOUR(kind) FOUR(kind) FOUR(kind)
#define PEAK(name, kind)                                                                           \
	TIMED void x86_64_peak_##name(const void *values, uint64_t turns)                          \
	{                                                                                          \
		register const void *a __asm__("rsi") = values, *b __asm__("rdi") = values;        \
		register size_t a_row __asm__("rdx") = 64, b_row __asm__("rcx") = 64;              \
                                                                                                   \
		__asm__ volatile(ZERO_0 ZERO_1 ZERO_2 ZERO_3 LOAD_A LOAD_B0 LOAD_B1                \
				 "sub $0x400, %%rdi\n\t" LOAD_B2 ".p2align 6\n"                    \
				 "1:\n\t" PRODUCTS_OF(kind) "dec %[turns]\n\tjne 1b"               \
				 : [turns] "+r"(turns), "+r"(b)                                    \
				 : "r"(a), "r"(a_row), "r"(b_row)                                  \
				 : "memory", "cc");                                                \
	}

PEAK(amx_bf16, BF16)
PEAK(amx_int8, INT8)

/* ---- loads alone ----------------------------------------------------------------------------- */

/* tileloadd (%rsi,%rdx,1), %tmm0 */
#define LOAD_FIRST ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x16\n\t"

/* No branch at the end of a row, which could be predicted wrongly. */
TIMED const char *x86_64_read_tiles(const char *start, size_t row, size_t first_left, size_t count)
{
	register const char *cursor __asm__("rsi") = start;
	register size_t stride __asm__("rdx") = row;
	size_t left = first_left;
	const char *below;

	__asm__ volatile(".p2align 6\n"
			 "1:\n\t" LOAD_FIRST "add $64, %[cursor]\n\t"
			 "lea (%[cursor],%[down]), %[below]\n\t"
			 "dec %[left]\n\t"
			 "cmovz %[below], %[cursor]\n\t"
			 "cmovz %[columns], %[left]\n\t"
			 "dec %[count]\n\t"
			 "jne 1b"
			 : [cursor] "+&r"(cursor), [left] "+&r"(left), [count] "+&r"(count),
			   [below] "=&r"(below)
			 : "r"(stride), [down] "r"((TILE_ROWS - 1) * row),
			   [columns] "r"(row / TILE_ROW_BYTES)
			 : "memory", "cc");
	return cursor;
}

/* ---- their state ----------------------------------------------------------------------------- */

/* Palette 1: 8 tiles of 16 rows of 64 bytes. */
static const struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} __attribute__((aligned(64))) configuration = {
	.palette = 1,
	.row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
	.rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

TIMED void x86_64_amx_begin(void)
{
	__asm__ volatile(CONFIGURE : : "a"(&configuration), "m"(configuration));
}

/* Releases the tiles, so that later thread switches need not save them. */
TIMED void x86_64_amx_end(void)
{
	__asm__ volatile(RELEASE);
}

#define AROUND .begin = x86_64_amx_begin, .end = x86_64_amx_end

const struct tiles x86_64_tile = {.stride = 4 * TILE_ROW_BYTES, .read = x86_64_read_tiles, AROUND};
const struct tiles x86_64_tileblock = {
	.stride = TILE_ROW_BYTES, .is_fixed = true, .read = x86_64_read_tiles, AROUND};

#define GEMM_16_64(name, values, deep, side)                                                       \
	const struct gemm x86_64_##name = {.value = values,                                        \
					   .rows = 16,                                             \
					   .columns = 64,                                          \
					   .depth = deep,                                          \
					   .pack = side,                                           \
					   .block = 16,                                            \
					   .strips = true,                                         \
					   .peak_operations = 2 * PRODUCTS * TILE_SUMS * (deep),   \
					   .multiply = name##_multiply,                            \
					   .multiply_ahead = ahead_##name##_multiply,              \
					   .peak = x86_64_peak_##name,                             \
					   AROUND}

GEMM_16_64(amx_bf16, GEMM_BF16, 32, 2);
GEMM_16_64(amx_int8, GEMM_INT8, 64, 4);
