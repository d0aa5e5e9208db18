// The passes between lower() and a printer, in order. Each leaves a program that check() accepts.
#pragma once

#include "emit/program.h"

namespace etrace::emit {

// Statements whose value nobody needs, stores to values that nobody reads, and steps that do nothing.
void remove_dead(EmitProgram&);
// Short axes become statements of their own.
void spell_out(EmitProgram&);
// What a loop computes beside its recurrence leaves it, for targets that want that.
void split_loops(EmitProgram&);
// Loops that carry every position by itself become an axis of a nest.
void walk_time(EmitProgram&);
// Nests that walk the same positions become one.
void fuse(EmitProgram&);
// The same before walk_time(): what follows a loop does not join a fold yet.
void fuse_around_loops(EmitProgram&);
// A step writes its result where a copy would put it, and the copy goes.
void coalesce(EmitProgram&);
// The same for products and kernels alone, as long as copies of their results are whole.
void coalesce_kernels(EmitProgram&);
// Axes joined and ordered, the vector axis and the parts for threads chosen, for every nest.
void schedule(EmitProgram&);
double work_of(const Nest&);  // in additions, about
// Loops whose threads may keep rows of their own for all times.
void share_rows(EmitProgram&);
// Every unplaced value gets its place in the arena; values that are not needed at the same time share it.
void place_buffers(EmitProgram&);
// InternalError if an access leaves its value, or a statement is not what it must be.
void check(const EmitProgram&);

// f(Nest&) for every nest, at any depth.
template <class F>
void for_each_nest(Block& block, const F& f) {
  for (Item& item : block) {
    if (auto* nest = std::get_if<Nest>(&item.step)) f(*nest);
    if (auto* region = std::get_if<Region>(&item.step))
      for (Block& b : region->blocks) for_each_nest(b, f);
  }
}

}  // namespace etrace::emit
