#include "export/project_files.h"

#include <cctype>
#include <utility>

#include "etrace/error.h"

namespace etrace::device {

namespace {

// What a program needs of a board. Everything that only an emulator or a debugger has is here.
constexpr const char* kBoardH = R"(/* What the programs of this folder need of a board. */
#ifndef BOARD_H
#define BOARD_H

@INCLUDE@ <stdint.h>

void board_put(const char* text);
void board_exit(int status);
/* An ascending counter of 24 bits, and what its steps stand for, in hundredths of an instruction; 0: there is none. */
uint32_t board_ticks(void);
uint32_t board_tick(void);
void board_paint_stack(void);     /* fills what is free of it */
uint32_t board_stack_used(void); /* since then, in bytes; 0: not known */

#endif
)";

constexpr const char* kHostC = R"(/* This machine as a board. */
@INCLUDE@ "board.h"

@INCLUDE@ <stdio.h>
@INCLUDE@ <stdlib.h>

void board_put(const char* text) { fputs(text, stdout); }
void board_exit(int status) { exit(status); }
uint32_t board_ticks(void) { return 0; }
uint32_t board_tick(void) { return 0; }
void board_paint_stack(void) {}
uint32_t board_stack_used(void) { return 0; }
)";

constexpr const char* kCortexM =
    R"(/* Startup for a Cortex-M, without a C library. Output goes by semihosting to a debugger or emulator: on a board
 * that runs alone replace board_put() and board_exit(), since `bkpt` without a debugger is a fault. */
@INCLUDE@ "board.h"

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
)";

constexpr const char* kRiscv =
    R"(/* Startup for RV32 on qemu's `virt`, without a C library: code and data in RAM, output by semihosting. */
@INCLUDE@ "board.h"

extern uint32_t link_bss_start, link_bss_end, link_stack_top;
int main(void);
void entry(void);
void _start(void);

static int semihost(int operation, const void* argument) {
  register int a0 __asm__("a0") = operation;
  register const void* a1 __asm__("a1") = argument;
  __asm__ volatile(
      ".option push\n.option norvc\n.balign 16\n slli x0,x0,0x1f\n ebreak\n srai x0,x0,7\n.option pop"
      : "+r"(a0)
      : "r"(a1)
      : "memory");
  return a0;
}
void board_put(const char* text) { semihost(0x04, text); }
void board_exit(int status) {
  uint32_t block[2];
  block[0] = 0x20026u;
  block[1] = (uint32_t)status;
  semihost(0x20, block);
  for (;;) {
  }
}
uint32_t board_ticks(void) {
  uint32_t count;
  __asm__ volatile("csrr %0, minstret" : "=r"(count));
  return count;
}
uint32_t board_tick(void) { return 100; }

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

__attribute__((used)) void entry(void) {
  uint32_t* p;
  for (p = &link_bss_start; p < &link_bss_end;) *p++ = 0;
  main();
  board_exit(0);
}
__attribute__((naked, section(".init"), used)) void _start(void) {
  __asm__ volatile("la sp, link_stack_top\n li t0, 0x2000\n csrs mstatus, t0\n j entry"); /* the FPU on */
}

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
)";

constexpr const char* kCortexLd =
    R"(/* Memory of the MPS2 boards that qemu emulates. For a chip of your own write its addresses and sizes here. */
MEMORY {
  FLASH (rx) : ORIGIN = 0x00000000, LENGTH = 4M
  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 4M
}
)";
constexpr const char* kCortex55Ld =
    R"(/* Memory of the MPS3 AN547: instructions and data in the tightly coupled memories. */
MEMORY {
  FLASH (rx) : ORIGIN = 0x00000000, LENGTH = 512K
  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 512K
}
)";
constexpr const char* kCortexSections = R"(ENTRY(reset)
link_stack_top = ORIGIN(RAM) + LENGTH(RAM);
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > FLASH
  .data : ALIGN(4) { link_data_start = .; *(.data*) . = ALIGN(4); link_data_end = .; } > RAM AT > FLASH
  link_data_load = LOADADDR(.data);
  .bss (NOLOAD) : ALIGN(8) { link_bss_start = .; *(.bss*) *(COMMON) . = ALIGN(8); link_bss_end = .; } > RAM
  /DISCARD/ : { *(.ARM.exidx*) *(.comment) }
}
)";
constexpr const char* kRiscvLd = R"(/* Memory of qemu's `virt`: all of it RAM. */
ENTRY(_start)
PHDRS {
  code PT_LOAD FLAGS(5);
  numbers PT_LOAD FLAGS(6);
}
SECTIONS {
  . = 0x80000000;
  .text : { KEEP(*(.init)) *(.text*) *(.rodata*) *(.srodata*) } :code
  .data : ALIGN(8) { *(.data*) *(.sdata*) } :numbers
  .bss (NOLOAD) : ALIGN(8) { link_bss_start = .; *(.sbss*) *(.bss*) *(COMMON) . = ALIGN(8); link_bss_end = .; } :numbers
  . = ALIGN(16);
  . += 64K;
  link_stack_top = .;
}
)";

// The example: streams of oscillations under noise, of which the next values are to be told.
constexpr const char* kMainC =
    R"(/* An example: @name@ learns online to tell the next values of a noisy sensor. Replace sensor() by yours. Prints
 * the mean loss of every 100 steps. */
@INCLUDE@ "board.h"
@INCLUDE@ "@name@.h"

#ifndef STEPS
#define STEPS 2000
#endif
#define CHANNELS @NAME@_X_SIZE

static uint32_t seed = 12345;
static float noise(void) { /* -1 … 1 */
  seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
  return (float)(int32_t)(seed >> 8) * 0x1p-23f - 1.0f;
}

/* Oscillators of different periods; what is read has noise, what is to be learned has none. */
static float sine[CHANNELS], cosine[CHANNELS];
static void sensor(float* reading) {
  int i;
  for (i = 0; i < CHANNELS; ++i) {
    const float speed = 0.1f + 0.03f * (float)i;
    if (sine[i] == 0.0f && cosine[i] == 0.0f) cosine[i] = 1.0f;
    sine[i] += speed * cosine[i];
    cosine[i] -= speed * sine[i];
    reading[i] = sine[i] + 0.1f * noise();
  }
}

static void put_number(int32_t n) {
  char text[12];
  int i = 11;
  text[i] = 0;
  do text[--i] = (char)('0' + n % 10), n /= 10;
  while (n != 0);
  board_put(text + i);
}

int main(void) {
  static @X@ x[@NAME@_X_SIZE];
  static @TARGET@ target[@NAME@_TARGET_SIZE];
  static @Y@ y[@NAME@_Y_SIZE];
  static float reading[CHANNELS], next[CHANNELS];
  float sum = 0.0f;
  int step, i;
  if (!@name@_init()) {
    board_put("compile with -ffp-contract=off\n");
    board_exit(2);
  }
  sensor(next);
  for (step = 1; step <= STEPS; ++step) {
    for (i = 0; i < CHANNELS; ++i) reading[i] = next[i];
    sensor(next);
    for (i = 0; i < @NAME@_X_SIZE; ++i) x[i] = (@X@)reading[i];
    for (i = 0; i < @NAME@_TARGET_SIZE; ++i) target[i] = @MAKE_TARGET@;
    if (!@name@_step_target(x, target, y)) board_put("not finite\n");
    sum += (float)@name@_loss();
    if (step % 100 == 0) {
      board_put("step ");
      put_number(step);
      board_put("  loss of the last 100, in millionths: ");
      put_number((int32_t)(sum * 1e4f));
      board_put("\n");
      sum = 0.0f;
    }
  }
  board_exit(0);
  return 0;
}
)";

constexpr const char* kMakefile = R"(# make: the program; make run: on the emulated board.
CC = @CC@
CFLAGS = -std=c99 -O2 -Wall -Wextra -pedantic @FLAGS@

@name@.elf: @name@.c @name@.h main.c board.h @STARTUP@ @LINKER@
	$(CC) $(CFLAGS) @T@ @name@.c main.c @STARTUP@ -o $@ @LIBS@

run: @name@.elf
	@RUN@

clean:
	rm -f @name@.elf
)";

constexpr const char* kLibraryProperties = R"(name=@name@
version=1.0.0
author=etrace
maintainer=etrace
sentence=A model that learns online.
paragraph=Exported by etrace: no allocation, no library, the optimiser inside.
category=Data Processing
url=https://example.com
architectures=*
includes=@name@.h
)";

constexpr const char* kSketch =
    R"(// @name@ learns online to tell the next readings of the analog inputs; the serial plotter shows the loss.
@INCLUDE@ <@name@.h>

static @X@ x[@NAME@_X_SIZE];
static @TARGET@ target[@NAME@_TARGET_SIZE];
static @Y@ y[@NAME@_Y_SIZE];

static float reading(int channel) { return analogRead(A0 + channel % 4) / 512.0f - 1.0f; }

void setup() {
  Serial.begin(115200);
  while (!@name@_init()) Serial.println("compile with -ffp-contract=off");
}

void loop() {
  for (int i = 0; i < @NAME@_X_SIZE; ++i) x[i] = (@X@)reading(i);
  delay(10);
  for (int i = 0; i < @NAME@_TARGET_SIZE; ++i) target[i] = (@TARGET@)reading(i);
  if (@name@_step_target(x, target, y)) Serial.println(@name@_loss(), 6);
}
)";

}  // namespace

std::string with_name(std::string text, const std::string& model_name) {
  std::string upper = model_name;
  for (char& ch : upper) ch = static_cast<char>(std::toupper(static_cast<unsigned char>(ch)));
  for (const auto& [mark, value] : {std::pair<std::string, std::string>{"@name@", model_name},
                                    {"@NAME@", upper},
                                    {"@INCLUDE@", "#include"}})
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
      text.replace(at, mark.size(), value);
  return text;
}

std::string project_file(std::string_view file, const std::string& model_name) {
  const std::pair<std::string_view, std::string> all[] = {
      {"board.h", kBoardH},
      {"host.c", kHostC},
      {"cortex_m.c", kCortexM},
      {"riscv.c", kRiscv},
      {"cortex_m.ld", std::string(kCortexLd) + kCortexSections},
      {"cortex_m55.ld", std::string(kCortex55Ld) + kCortexSections},
      {"riscv.ld", kRiscvLd},
      {"main.c", kMainC},
      {"Makefile", kMakefile},
      {"library.properties", kLibraryProperties},
      {"sketch.ino", kSketch}};
  for (const auto& [name, text] : all)
    if (name == file) return with_name(text, model_name);
  internal_error("there is such a file", __FILE__, __LINE__);
}

}  // namespace etrace::device
