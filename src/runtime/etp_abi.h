/* What emitted code and its host know of each other. The host fills in an etp_host and an etp_run; the shared
 * object exports one etp_module, named etrace_module. Fields are only added, at the end, and then the version
 * goes up: a module of another version is not run. */
#ifndef ETP_ABI_H
#define ETP_ABI_H

#include <stddef.h>
#include <stdint.h>

#define ETP_ABI_VERSION 1

typedef struct etp_host {
  int64_t version;
  /* f(data, part) once for every part, on any thread, in any order. */
  void (*parallel)(int64_t parts, void (*f)(void* data, int64_t part), void* data);
  /* Kernel number `kernel` of the program; `context` is that of the run. */
  void (*call)(const void* context, int64_t kernel, const void* const* in, void* const* out, void* scratch);
  /* C = A B: matrix product number `product` of the program. */
  void (*product)(const void* context, int64_t product, const void* a, const void* b, void* c, void* scratch);
} etp_host;

typedef struct etp_run {
  const etp_host* host;
  const void* context;
  const void* const* arguments; /* row-major, at any address that suits their type */
  void* const* results;         /* an aliased one is its argument */
  const void* const* constants;
  void* arena;   /* etp_module.arena_bytes, at a multiple of 64 */
  void* scratch; /* for kernels and products: as much as the host says they need */
} etp_run;

typedef struct etp_module {
  int64_t version, arena_bytes, arguments, results, constants;
  const char* name;
  void (*run)(const etp_run*);
} etp_module;

#endif /* ETP_ABI_H */
