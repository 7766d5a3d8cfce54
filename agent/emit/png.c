/* png.c: a picture of a pixel a cell in a palette of shades, for a page that holds it as base64. */
#include "emit/card.h"

enum { BLOCK_MOST = 65535, ADLER = 65521 };

struct png {
	struct text *page;
	uint32_t crc, held; /* held: bytes that wait to be three */
	int waiting;
	uint32_t a, b; /* of Adler-32 */
};

static void flush_base64(struct png *png)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = png->held << 8 * (3 - png->waiting);

	if (!png->waiting)
		return;
	text_add(png->page, "%c%c%c%c", digits[bits >> 18 & 63], digits[bits >> 12 & 63],
		 png->waiting > 1 ? digits[bits >> 6 & 63] : '=',
		 png->waiting > 2 ? digits[bits & 63] : '=');
	png->held = 0;
	png->waiting = 0;
}

static void put_byte(struct png *png, uint32_t byte)
{
	png->crc ^= byte & 255;
	for (int i = 0; i < 8; i++)
		png->crc = png->crc >> 1 ^ (png->crc & 1 ? UINT32_C(0xedb88320) : 0);
	png->held = png->held << 8 | (byte & 255);
	if (++png->waiting == 3)
		flush_base64(png);
}

static void put_32(struct png *png, uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		put_byte(png, value >> shift);
}

static void begin_chunk(struct png *png, const char *name, uint32_t bytes)
{
	put_32(png, bytes);
	png->crc = UINT32_MAX;
	for (int i = 0; i < 4; i++)
		put_byte(png, (unsigned char)name[i]);
}

static void end_chunk(struct png *png)
{
	put_32(png, ~png->crc);
}

/* Adds a byte of the picture to the file and to the checksum. */
static void put_data(struct png *png, uint32_t byte)
{
	png->a = (png->a + byte) % ADLER;
	png->b = (png->b + png->a) % ADLER;
	put_byte(png, byte);
}

/* Adds the palette: seven points of viridis, as in fleet/analysis/views/heatmap.py; then white. */
static void put_palette(struct png *png)
{
	static const int points[][3] = {{68, 1, 84},    {68, 57, 131},  {49, 104, 142},
					{33, 145, 140}, {53, 183, 121}, {144, 215, 67},
					{253, 231, 37}};

	begin_chunk(png, "PLTE", 3 * (SHADES + 1));
	for (int shade = 0; shade < SHADES; shade++)
		for (int i = 0; i < 3; i++) {
			int point = shade == SHADES - 1 ? 5 : shade * 6 / (SHADES - 1);
			int rest = shade * 6 - point * (SHADES - 1);
			int step = (points[point + 1][i] - points[point][i]) * rest;

			put_byte(png, (uint32_t)((2 * (points[point][i] * (SHADES - 1) + step) +
						  (SHADES - 1)) /
						 (2 * (SHADES - 1))));
		}
	for (int i = 0; i < 3; i++)
		put_byte(png, 255);
	end_chunk(png);
}

void card_add_png(struct text *page, shade_fn *shade, const void *context, size_t rows,
		  size_t columns)
{
	static const unsigned char head[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
	struct png png = {.page = page, .a = 1};
	size_t bytes = rows * (columns + 1), done = 0;

	for (size_t i = 0; i < sizeof head; i++)
		put_byte(&png, head[i]);
	begin_chunk(&png, "IHDR", 13);
	put_32(&png, (uint32_t)columns);
	put_32(&png, (uint32_t)rows);
	for (int i = 0; i < 5; i++)
		put_byte(&png, i ? (uint32_t)(i == 1) * 3 : 8);
	end_chunk(&png);
	put_palette(&png);
	begin_chunk(&png, "tRNS", SHADES + 1);
	for (int i = 0; i < SHADES; i++)
		put_byte(&png, 255);
	put_byte(&png, 0);
	end_chunk(&png);
	begin_chunk(&png, "IDAT",
		    (uint32_t)(6 + bytes + 5 * ((bytes + BLOCK_MOST - 1) / BLOCK_MOST)));
	put_byte(&png, 0x78);
	put_byte(&png, 0x01);
	for (; done < bytes; done++) {
		if (done % BLOCK_MOST == 0) {
			size_t left = bytes - done;
			uint32_t length = (uint32_t)(left < BLOCK_MOST ? left : BLOCK_MOST);

			put_byte(&png, left <= BLOCK_MOST);
			put_byte(&png, length);
			put_byte(&png, length >> 8);
			put_byte(&png, ~length);
			put_byte(&png, ~length >> 8);
		}
		size_t row = done / (columns + 1), column = done % (columns + 1);

		put_data(&png, column ? (uint32_t)shade(context, row, column - 1) : 0);
	}
	put_32(&png, png.b << 16 | png.a);
	end_chunk(&png);
	begin_chunk(&png, "IEND", 0);
	end_chunk(&png);
	flush_base64(&png);
}
