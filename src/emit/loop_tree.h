// What a printer prints: the loops of a program as a tree, in which everything is decided. loops.cpp makes
// the functions of nests, unit.cpp the function that calls them.
//
// Numbers are text, in the names of what stands further outside: so are the formulas of operations
// (etrace/emission.h), and every target so far reads C.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "emit/names.h"
#include "emit/program.h"

namespace etrace::emit {

struct Node;
using Tree = std::vector<Node>;

// variable = from, from + step … below `to`; or from, from - 1 … down to `to`.
struct Range {
  enum Kind : std::uint8_t { Serial, Vector };  // Vector: no position needs another one
  Kind kind = Serial;
  std::string variable, from, to;
  Index step = 1;
  bool down = false;
  std::vector<std::string> joined{};  // Vector: variables that the positions only add bits to
  bool operator==(const Range&) const = default;
};
struct For {
  Range range;
  Tree body;
  bool operator==(const For&) const = default;
};
struct Let {  // a name for a number
  std::string type, name, value;
  bool varies = false;
  bool operator==(const Let&) const = default;
};
struct Lanes {  // numbers side by side
  std::string type, name;
  Index size;
  bool zero = false;
  bool operator==(const Lanes&) const = default;
};
struct Set {
  std::string to, value;
  bool operator==(const Set&) const = default;
};
struct Do {  // a function of the text, for its effect
  std::string call;
  bool operator==(const Do&) const = default;
};
struct If {
  std::string condition;
  Tree body;
  bool operator==(const If&) const = default;
};
struct Skip {  // the rest of a loop's body, if
  std::string condition;
  bool operator==(const Skip&) const = default;
};
struct Leave {  // the function, if
  std::string condition;
  bool operator==(const Leave&) const = default;
};

// In the entry:
struct Note {
  CommentText text;
  bool operator==(const Note&) const = default;
};
struct RunLoops {  // positions [0, size) of a function, in so many parts
  std::string function;
  std::vector<std::string> pointers;
  Index size, parts;
  Index per_row = 0;  // inside ShareRows::own: positions [lo, hi) · per_row, by this thread
  bool operator==(const RunLoops&) const = default;
};
struct CallLibrary {
  std::string callee;      // of Unit::callees
  std::string descriptor;  // of Unit::descriptors; empty: the host has it
  std::vector<std::string> in, out;
  Index per_row = 0;  // inside ShareRows::own: a product of (hi - lo) · per_row rows, by this thread
  bool operator==(const CallLibrary&) const = default;
};
struct Repeat {  // as long as `predicate`, which the condition computes, holds
  Tree condition;
  std::string predicate;
  Tree body;
  bool operator==(const Repeat&) const = default;
};
struct Choose {
  std::string index;
  std::vector<Tree> cases;
  bool operator==(const Choose&) const = default;
};
// Threads take rows [lo, hi) of so many, in at most so many parts, and run `own`; where one thread takes all
// rows, or there are too few for the threads, they share each step of `together`.
struct ShareRows {
  Index rows, most_parts;
  Tree own, together;
  bool operator==(const ShareRows&) const = default;
};
struct Clock {
  std::size_t step;
  bool start;
  bool of_rows = false;  // inside ShareRows::own: counts for the first thread alone
  bool operator==(const Clock&) const = default;
};

struct Node {
  std::variant<For, Let, Lanes, Set, Do, If, Skip, Leave, Note, RunLoops, CallLibrary, Repeat, Choose,
               ShareRows, Clock>
      what;
  bool operator==(const Node&) const = default;
};

// positions of the first axis, from `lo` up to `hi` where it is `ranged`.
struct LoopFunction {
  std::string name;
  std::vector<CommentText> notes{};
  struct Parameter {
    std::string type;
    bool written;
    bool operator==(const Parameter&) const = default;
  };
  std::vector<Parameter> pointers;  // x0, x1 …
  bool ranged = true;
  Tree body;
};

// One program.
struct Unit {
  const EmitProgram* program;
  std::string name;   // of the entry, and what every other name begins with; empty: `run`
  std::string arena;  // what the names of static arrays begin with
  std::vector<LoopFunction> functions;
  std::vector<std::string> callees;  // what the host has to find, by name
  struct Descriptor {
    std::string type, fields, name;
  };
  std::vector<Descriptor> descriptors;
  struct Buffer {
    std::string name, at;
    CommentText note;
  };
  std::vector<Buffer> buffers;
  std::vector<std::size_t> constants;  // those that are read
  Tree entry;
  std::size_t clocks = 0;
};

// Where an argument of a function points to.
struct Pointer {
  ValueId value;
  Index first;
  std::vector<std::pair<int, Index>> time;
  bool operator==(const Pointer&) const = default;
};
std::vector<Pointer> nest_pointers(const Nest&);
std::vector<Pointer> product_pointers(const Product&);
LoopFunction loops_of(const EmitProgram&, const Nest&);
LoopFunction loops_of(const EmitProgram&, const Product&);  // for targets without products

struct TimedStep;
struct UnitOptions {
  std::vector<TimedStep>* timed = nullptr;  // a clock around every step
  // Of a stand-alone file. Empty: names that follow from the program's, ports by pointers in its order.
  std::string name{}, arena{};
  std::vector<std::string> arguments{}, results{}, constants{};
  std::vector<LoopFunction> known{};  // functions that stand before it in the text
};
Unit unit_of(const EmitProgram&, UnitOptions = {});

}  // namespace etrace::emit
