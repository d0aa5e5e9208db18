#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/export.h"

namespace etrace {

namespace {

#define ETRACE_COMMON "-ffp-contract=off -fno-math-errno -ffreestanding -nostartfiles -nodefaultlibs"
constexpr ExportTarget kTargets[] = {
    {.name = "c99", .doc = "any C99 compiler"},
    {.name = "cortex-m4",
     .doc = "ARM Cortex-M4F; emulated: MPS2 AN386",
     .compiler = "arm-none-eabi-gcc",
     .flags = "-mthumb -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard " ETRACE_COMMON,
     .emulator = "qemu-system-arm",
     .machine = "mps2-an386",
     .startup = "cortex_m.c",
     .linker = "cortex_m.ld",
     .doubles = false},
    {.name = "cortex-m7",
     .doc = "ARM Cortex-M7 with double precision; emulated: MPS2 AN500",
     .compiler = "arm-none-eabi-gcc",
     .flags = "-mthumb -mcpu=cortex-m7 -mfpu=fpv5-d16 -mfloat-abi=hard " ETRACE_COMMON,
     .emulator = "qemu-system-arm",
     .machine = "mps2-an500",
     .startup = "cortex_m.c",
     .linker = "cortex_m.ld"},
    {.name = "cortex-m55",
     .doc = "ARM Cortex-M55 with vectors; emulated: MPS3 AN547",
     .compiler = "arm-none-eabi-gcc",
     .flags = "-mthumb -mcpu=cortex-m55 -mfloat-abi=hard " ETRACE_COMMON,
     .emulator = "qemu-system-arm",
     .machine = "mps3-an547",
     .startup = "cortex_m.c",
     .linker = "cortex_m55.ld"},
    {.name = "rv32",
     .doc = "RISC-V RV32IMAFC; emulated: virt",
     .compiler = "riscv64-unknown-elf-gcc",
     .flags = "-march=rv32imafc -mabi=ilp32f -mno-relax " ETRACE_COMMON,
     .emulator = "qemu-system-riscv32",
     .machine = "virt",
     .startup = "riscv.c",
     .linker = "riscv.ld",
     .doubles = false},
};
#undef ETRACE_COMMON

}  // namespace

std::span<const ExportTarget> export_targets() { return kTargets; }

const ExportTarget& find_export_target(std::string_view name) {
  for (const ExportTarget& t : kTargets)
    if (t.name == name) return t;
  throw ValueError("export", no_such_name("target", name, row_names(export_targets())));
}

}  // namespace etrace
