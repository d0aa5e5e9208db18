/* What kernels, emitted code and their host know of each other. A kernel is a plain function with a name: it
 * gets a descriptor, made of 64-bit integers alone (kernels/etp_descriptors.h), the context of the run, and
 * pointers. The host fills in an etp_run; the shared object exports one etp_module, named etrace_module. With
 * every change of a struct the version goes up: a module of another version is not run. */
#ifndef ETP_ABI_H
#define ETP_ABI_H

#include <stddef.h>
#include <stdint.h>

#define ETP_ABI_VERSION 4

/* The element types, as etrace::Dtype numbers them. */
enum { ETP_BOOL, ETP_I32, ETP_I64, ETP_U32, ETP_F16, ETP_BF16, ETP_F32, ETP_F64 };

/* What a kernel knows of where it runs. It reads nothing else that is not its own. */
typedef struct etp_context {
  int64_t threads; /* among how many a kernel divides its work; no result depends on it */
  /* f(data, part) once for every part, on any thread, in any order. */
  void (*parallel)(void* pool, int64_t parts, void (*f)(void* data, int64_t part), void* data);
  void* pool;
  /* What is known of arrays that no step of the run writes, since they were last written: see
   * etp_matrix_product.known. */
  uint8_t* known;
  /* Asked between two steps of a loop over time: 1 ends the run, whose results are then of no use. Null: it
   * goes to its end. */
  int64_t (*ends)(void* host);
  void* host;
} etp_context;

typedef void etp_kernel(const void* descriptor, const etp_context* context, const void* const* in,
                        void* const* out, void* scratch);

/* A kernel that a program calls, as its host found it by name. */
typedef struct etp_callee {
  etp_kernel* run;
  const void* descriptor; /* of a row that the host runs by itself; null: the program has it */
} etp_callee;

typedef struct etp_run {
  const etp_context* context;
  const etp_callee* callees;    /* in the order of etp_module.callees */
  const void* const* arguments; /* row-major, at any address that suits their type */
  void* const* results;         /* an aliased one is its argument */
  const void* const* constants;
  void* arena;         /* etp_module.arena_bytes, at a multiple of 64 */
  void* scratch;       /* for kernels: as much as the host says they need */
  int64_t row_scratch; /* bytes of it for each thread that has rows of its own (etp_parts.h) */
} etp_run;

typedef struct etp_module {
  int64_t version, arena_bytes, arguments, results, constants, known_bytes, callee_count;
  const char* name;
  const char* const* callees; /* names */
  void (*run)(const etp_run*);
} etp_module;

#endif /* ETP_ABI_H */
