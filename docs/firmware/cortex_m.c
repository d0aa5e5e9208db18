/* Startup for a Cortex-M, without a C library. Output goes by semihosting to a debugger or emulator: on a board
 * that runs alone replace board_put() and board_exit(), since `bkpt` without a debugger is a fault. */
#include "board.h"

extern uint32_t link_data_load, link_data_start, link_data_end, link_bss_start, link_bss_end, link_stack_top;
int main(void);
void reset(void);

static int semihost(int operation, const void* argument) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
void board_put(const char* text) { semihost(0x04, text); } /* SYS_WRITE0 */
void board_exit(int status) {
  uint32_t block[2];
  block[0] = 0x20026u; /* the application ends */
  block[1] = (uint32_t)status;
  semihost(0x20, block); /* SYS_EXIT_EXTENDED */
  for (;;) {
  }
}

#define REGISTER(address) (*(volatile uint32_t*)(address))
/* SysTick counts down, at 25 MHz on MPS2 boards and at 32 MHz on the MPS3: every 40 or 31.25 instructions under
 * qemu's -icount shift=0, which takes a nanosecond for each. */
uint32_t board_ticks(void) { return 0xffffffu - REGISTER(0xe000e018u); }
#if __ARM_ARCH >= 8
uint32_t board_tick(void) { return 3125; }
#else
uint32_t board_tick(void) { return 4000; }
#endif

static void __attribute__((noinline)) paint(uint32_t* here) {
  volatile uint32_t* p;
  for (p = &link_bss_end; p < here - 64; ++p) *p = 0x5a5a5a5au;
}
void board_paint_stack(void) {
  uint32_t here = 0;
  paint(&here);
}
uint32_t board_stack_used(void) {
  const volatile uint32_t* p = &link_bss_end;
  while (p < &link_stack_top && *p == 0x5a5a5a5au) ++p;
  return (uint32_t)((const char*)&link_stack_top - (const char*)p);
}

void reset(void) {
  uint32_t *to, *from = &link_data_load;
  REGISTER(0xe000ed88u) |= 0xfu << 20; /* CPACR: the FPU is off after a reset */
  __asm__ volatile("dsb\n isb");
  for (to = &link_data_start; to < &link_data_end;) *to++ = *from++;
  for (to = &link_bss_start; to < &link_bss_end;) *to++ = 0;
  REGISTER(0xe000e014u) = 0xffffffu;
  REGISTER(0xe000e018u) = 0;
  REGISTER(0xe000e010u) = 5; /* SysTick, by the processor's clock */
  main();
  board_exit(0);
}

static void fault(void) {
  board_put("fault\n");
  board_exit(99);
}
__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {
    (void (*)(void))(uintptr_t)&link_stack_top, reset, fault, fault, fault, fault, fault};

/* Compilers call these by themselves. */
void* memcpy(void* to, const void* from, unsigned n);
void* memset(void* to, int value, unsigned n);
void* memcpy(void* to, const void* from, unsigned n) {
  char* a = to;
  const char* b = from;
  while (n-- != 0) *a++ = *b++;
  return to;
}
void* memset(void* to, int value, unsigned n) {
  char* a = to;
  while (n-- != 0) *a++ = (char)value;
  return to;
}
