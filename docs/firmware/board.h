/* What the programs of this folder need of a board. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void board_put(const char* text);
void board_exit(int status);
/* An ascending counter of 24 bits, and what its steps stand for, in hundredths of an instruction; 0: there is none. */
uint32_t board_ticks(void);
uint32_t board_tick(void);
void board_paint_stack(void);     /* fills what is free of it */
uint32_t board_stack_used(void); /* since then, in bytes; 0: not known */

#endif
