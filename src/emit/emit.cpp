#include "emit/emit.h"

#include "emit/lower.h"
#include "emit/passes.h"

namespace etrace::emit {

EmitProgram build(const Program& source) {
  EmitProgram p = lower(source);
  for (const auto pass : {remove_dead, coalesce_kernels, remove_dead, spell_out, fuse_around_loops,
                          remove_dead, walk_time, fuse, remove_dead, coalesce, remove_dead, schedule}) {
    check(p);
    pass(p);
  }
  check(p);
  place_buffers(p);
  return p;
}

}  // namespace etrace::emit
