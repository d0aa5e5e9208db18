// Modules and states: how a model is written, and how one step of it becomes a program.
//
//   struct Leaky : Module {
//     ParamState& w = param("w", random::normal(random::key(0), {3, 8}));
//     HiddenState& v = hidden("v", {8});
//     Array update(const Array& x) override {
//       const Array kept = 0.9 * v.value();
//       v.set(kept + matmul(x, w.value()));
//       return v.value();
//     }
//   };
//
// A state is read with value() and written with set(). Both are visible acts: the order in which a step first
// touches its states is the order in which they are inputs and outputs of the traced program. C++ does not
// say which operand of + or which argument of a call is evaluated first: where the order shall be the same
// under every compiler, name values in statements of their own. Start with Module.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etrace/array.h"
#include "etrace/model_io.h"
#include "etrace/versioned_array.h"

#pragma GCC visibility push(default)
namespace etrace {

// States ----------------------------------------------------------------------------------------------------
// Any ─┬─ LongTerm ─┬─ Param                    survives a reset
//      │            ├─ Random
//      │            └─ Mode
//      └─ ShortTerm ─┬─ Hidden ── HiddenGroup ── HiddenTree
//                    └─ Key
enum class StateKind : std::uint8_t {
  Any,
  LongTerm,
  Param,
  Random,
  Mode,
  ShortTerm,
  Hidden,
  HiddenGroup,
  HiddenTree,
  Key
};
std::string_view name(StateKind);            // "ParamState"
bool is_a(StateKind kind, StateKind other);  // every kind is_a(Any); HiddenTree is_a(ShortTerm)
// The kind of that name, as model files have it; none for a class of an author's own.
std::optional<StateKind> state_kind(std::string_view name);

using NamedArrays = std::vector<std::pair<std::string, Array>>;

// A value that outlives a step: one array, or a dictionary of named leaves kept in alphabetical order.
// set() keeps element types and shapes (TypeError, ValueError); a bare C++ number fills the whole array.
// While a step is traced, values are tracers and everything below records.
class State : public std::enable_shared_from_this<State> {
 public:
  virtual ~State();
  State(const State&) = delete;  // a state is a place, not a value
  State& operator=(const State&) = delete;

  StateKind kind() const { return kind_; }
  virtual std::string_view type() const { return name(kind_); }  // the class as its author names it
  const std::string& name_in_owner() const { return name_; }     // empty outside of every module

  Array value() const;  // TypeError if the state is a dictionary
  void set(const Array& value);
  Array value(std::string_view leaf) const;  // ValueError lists the leaves
  void set(std::string_view leaf, const Array& value);
  // All leaves in order; a bare array is one leaf without a key.
  Arrays leaves() const;
  void set_leaves(ArraySpan values);
  const std::vector<std::string>& leaf_keys() const { return keys_; }  // empty for a bare array
  Avals avals() const;  // types of the leaves; asking is no read
  bool has_leaf(std::string_view key) const;
  // For learners, which go on with the values in buffers of their own.
  VersionedArray& leaf(std::size_t i);

 protected:
  State(StateKind kind, const Array& value);
  State(StateKind kind, NamedArrays leaves);
  struct Unchecked {};  // may be made while a step is traced, because it outlives the step
  State(StateKind kind, const Array& value, Unchecked);
  void replace(Arrays leaves);                               // as set_leaves, but types may change
  Array fitted(const Array& value, const Aval& type) const;  // checked; a bare number filled up
  std::string describe() const;                              // "HiddenState 'h'"

 private:
  friend class Module;
  friend class StatefulTrace;
  friend class StateReads;
  std::size_t position(std::string_view leaf) const;
  std::size_t only_leaf() const;
  const std::vector<VersionedArray>& touched() const;
  void put(std::size_t leaf, const Array& value);
  void settle() const;  // its value does not follow from its place any longer

  StateKind kind_;
  std::string name_;
  std::vector<std::string> keys_;
  std::vector<VersionedArray> leaves_;
  struct Draw;
  mutable std::unique_ptr<Draw> draw_;  // until the value is first read or written
};

// Kept over resets: running statistics, and parameters.
class LongTermState : public State {
 public:
  explicit LongTermState(const Array& value) : State(StateKind::LongTerm, value) {}
  explicit LongTermState(NamedArrays leaves) : State(StateKind::LongTerm, std::move(leaves)) {}

 protected:
  using State::State;
};

// Trainable. A step must not write it.
class ParamState : public LongTermState {
 public:
  explicit ParamState(const Array& value) : LongTermState(StateKind::Param, value) {}
  explicit ParamState(NamedArrays leaves) : LongTermState(StateKind::Param, std::move(leaves)) {}
};

// A random key that goes on from step to step and over resets: the same noise comes twice only if the key is
// set to the same seed. A step draws with key.next().
class RandomState : public LongTermState {
 public:
  explicit RandomState(std::uint64_t seed);
  explicit RandomState(const Array& key);  // u32[2]; TypeError otherwise

  Array next();  // a key of its own for one draw; the state moves on
  void seed(std::uint64_t seed);
};

// Whether the model trains or is evaluated; see Module::training.
class ModeState : public LongTermState {
 public:
  ModeState();
};

// Set back to its initial value by init_all_states and reset_all_states. Alone it is carried from step to
// step but is no hidden state: delays, counters. What holds a random key says so by its type: RandomState,
// KeyState.
class ShortTermState : public State {
 public:
  // per_sample: a batch gives every sample a copy, along a leading axis.
  explicit ShortTermState(const Array& init, bool per_sample = true)
      : ShortTermState(StateKind::ShortTerm, init, per_sample) {}
  explicit ShortTermState(NamedArrays init, bool per_sample = true);

  // The initial value, with or without a batch axis.
  void init(std::optional<std::int64_t> batch);
  void reset() { init(batch_); }
  const Arrays& initial() const { return init_; }  // of one sample, leaf by leaf
  std::optional<std::int64_t> batch() const { return batch_; }
  bool per_sample() const { return per_sample_; }
  // Whether the leading axis counts samples; none: it was never initialised with or without a batch.
  std::optional<bool> has_batch_axis() const {
    return times_ == 0 ? std::nullopt : std::optional(batch_.has_value() && per_sample_);
  }

 protected:
  ShortTermState(StateKind kind, const Array& init, bool per_sample = true);

 private:
  friend class KeyState;
  Arrays init_;
  bool per_sample_;
  std::optional<std::int64_t> batch_;
  std::uint32_t times_ = 0;  // how often it was initialised
};

// A random key that every reset sets back, so that each sequence has the same noise; RandomState goes on.
// With a batch each sample has a key of its own, unless all share one.
class KeyState : public ShortTermState {
 public:
  explicit KeyState(std::uint64_t seed, bool per_sample = true);
  // u32[2], or several that samples share: u32[…, 2]; TypeError otherwise
  explicit KeyState(const Array& key, bool per_sample = true);

  Array next();  // a key of its own for one draw (with a batch one per sample); the state moves on
  void seed(std::uint64_t seed);
  void start_from(const Array& key);  // u32[2]; now, and after every reset
};

// Exactly one array that the compiler takes for the network's memory.
class HiddenState : public ShortTermState {
 public:
  explicit HiddenState(const Array& init) : ShortTermState(StateKind::Hidden, init) {}

 protected:
  HiddenState(StateKind kind, const Array& init) : ShortTermState(kind, init) {}
};

// Several states of one shape, stacked on the last axis: [*varshape, S], rank ≥ 2.
class HiddenGroupState : public HiddenState {
 public:
  explicit HiddenGroupState(const Array& init) : HiddenGroupState(StateKind::HiddenGroup, init) {}

  std::int64_t num_state() const { return avals()[0].shape.back(); }
  Shape varshape() const;  // with the batch axis, if there is one
  Array get_value(std::int64_t index) const;
  void set_value(std::int64_t index, const Array& value);
  void set_values(ArraySpan values);  // all of them, in order

 protected:
  HiddenGroupState(StateKind kind, const Array& init);

 private:
  void require_index(std::int64_t index) const;
};

// The same with a name for each; the order is that of the constructor.
class HiddenTreeState : public HiddenGroupState {
 public:
  explicit HiddenTreeState(const NamedArrays& init);  // ValueError: none, unequal shapes, a name twice

  using HiddenGroupState::get_value, HiddenGroupState::set_value;
  Array get_value(std::string_view name) const { return get_value(index(name)); }
  void set_value(std::string_view name, const Array& value) { set_value(index(name), value); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::int64_t index(std::string_view name) const;
  std::vector<std::string> names_;
};

// Modules ---------------------------------------------------------------------------------------------------
// std::make_shared with one readable error: the compiler names T and Args where the assertion fails.
template <class T, class... Args>
std::shared_ptr<T> make_object(Args&&... args) {
  constexpr bool kFits = std::is_constructible_v<T, Args...>;
  static_assert(kFits, "T has no constructor that takes these arguments (T and Args stand above)");
  if constexpr (kFits)
    return std::make_shared<T>(std::forward<Args>(args)...);
  else
    return nullptr;
}

// A node of the model: named children, named states, and what one time step does with them. Derive from it,
// declare members with child(), param(), hidden() …, and override one of the two forms of update.
class Module : public std::enable_shared_from_this<Module> {
 public:
  Module();
  virtual ~Module();
  Module(const Module&) = delete;  // members refer to children and states
  Module& operator=(const Module&) = delete;

  virtual Array update(const Array& x);    // one input, one result
  virtual Arrays update_all(ArraySpan x);  // any number; by default update()

  // One step. Equations that are recorded meanwhile carry the module's place in their origin.
  Array operator()(const Array& x);
  Arrays operator()(ArraySpan x);

  // Training (as a model starts) or evaluating, for the whole tree that the module belongs to. It is a state
  // of the model, so that programs that were compiled before see the change. A step reads it as training(), a
  // bool scalar: where(training(), dropped, y). In programs its path is training_mode.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const;
  Array training() const { return mode_->value(); }

  struct Member {
    PathPart name;
    std::shared_ptr<Module> module;  // one of the two
    std::shared_ptr<State> state;
    bool attached = false;  // not made by the module that holds it
  };
  const std::vector<Member>& members() const { return members_; }  // names ascending

  // A tree that is put together from outside, as bindings to other languages do. Who is attached at several
  // places keeps the first for as long as it is there. CompilationError if the name is taken; ValueError for
  // nothing, for a name as above, and for a module that would hold itself.
  void attach(PathPart name, std::shared_ptr<Module>);
  void attach(PathPart name, std::shared_ptr<State>);
  // Only of what was attached: NotSupportedError for a member that the module has made itself, which it goes
  // on using, and while a step of the model is recorded. ValueError if there is none. replace() also attaches
  // what is new.
  void detach(const PathPart& name);
  void replace(PathPart name, std::shared_ptr<Module>);
  void replace(PathPart name, std::shared_ptr<State>);
  // Where the module is in its tree: the names from the root on, as far as they are known.
  const std::vector<std::string>& place() const { return place_; }
  const std::vector<std::string>& scope() const { return scope_; }  // what a call adds to the origin

 protected:
  // Makes a child or a state and owns it. While a child is made, OriginScope::current() is its place.
  // CompilationError names both if the name is taken; ValueError for a name that is empty or holds a '/'.
  template <std::derived_from<Module> M, class... Args>
  M& child(std::string name, Args&&... args) {
    return make_child<M>(PathPart(std::move(name)), std::forward<Args>(args)...);
  }
  // The same with the options of M in braces, behind up to three other arguments:
  // child<nn::LIF>("neurons", 4, {.tau = 10.0}). M names their type M::Options, as all layers of nn do.
  template <std::derived_from<Module> M>
  M& child(std::string name, const typename M::Options& o) {
    return make_child<M>(PathPart(std::move(name)), o);
  }
  template <std::derived_from<Module> M, class A>
  M& child(std::string name, A&& a, const typename M::Options& o) {
    return make_child<M>(PathPart(std::move(name)), std::forward<A>(a), o);
  }
  template <std::derived_from<Module> M, class A, class B>
  M& child(std::string name, A&& a, B&& b, const typename M::Options& o) {
    return make_child<M>(PathPart(std::move(name)), std::forward<A>(a), std::forward<B>(b), o);
  }
  template <std::derived_from<Module> M, class A, class B, class C>
  M& child(std::string name, A&& a, B&& b, C&& c, const typename M::Options& o) {
    return make_child<M>(PathPart(std::move(name)), std::forward<A>(a), std::forward<B>(b),
                         std::forward<C>(c), o);
  }
  template <std::derived_from<State> S, class... Args>
  S& state(std::string name, Args&&... args) {
    auto made = make_object<S>(std::forward<Args>(args)...);
    S& result = *made;
    add_state(std::move(name), std::move(made));
    return result;
  }
  // One module or state at several places; it keeps the first path. ValueError if nothing owns it yet.
  template <class T>
  requires std::derived_from<T, Module> || std::derived_from<T, State> T& share(std::string name, T& object) {
    share_object(std::move(name), object);
    return object;
  }

  // A state whose first value follows from the place of the module (nn::layer_key): draw() gives an array or
  // NamedArrays, with OriginScope::current() at that place. It is drawn now and, should the module be
  // attached somewhere before anybody has read the value, once more when it is read. `draw` outlives the
  // module: it must not refer to it.
  template <std::derived_from<State> S, std::invocable F>
  S& drawn(std::string name, F draw) {
    S& made = state<S>(std::move(name), draw());
    remember(made, [draw = std::move(draw)]() -> NamedArrays {
      if constexpr (std::is_same_v<std::invoke_result_t<const F&>, NamedArrays>)
        return draw();
      else
        return {{"", draw()}};
    });
    return made;
  }
  template <std::invocable F>
  ParamState& param(std::string name, F draw) {
    return drawn<ParamState>(std::move(name), std::move(draw));
  }
  ParamState& param(std::string name, const Array& value);
  ParamState& param(std::string name, NamedArrays leaves);
  HiddenState& hidden(std::string name, const Shape& shape, Dtype dtype = Dtype::F32);
  template <std::same_as<Array> A>  // a template, so that {8} is a shape
  HiddenState& hidden(std::string name, const A& init) {
    return state<HiddenState>(std::move(name), init);
  }
  HiddenGroupState& hidden_group(std::string name, const Shape& shape, Dtype dtype = Dtype::F32);
  template <std::same_as<Array> A>
  HiddenGroupState& hidden_group(std::string name, const A& init) {
    return state<HiddenGroupState>(std::move(name), init);
  }
  HiddenTreeState& hidden_tree(std::string name, const NamedArrays& init);
  RandomState& random_key(std::string name, std::uint64_t seed = 0);
  ShortTermState& short_term(std::string name, const Array& init, bool per_sample = true);
  LongTermState& long_term(std::string name, const Array& value);

 private:
  friend class ModuleList;
  friend class StatefulTrace;
  template <std::derived_from<Module> M, class... Args>
  M& make_child(PathPart name, Args&&... args) {
    std::shared_ptr<M> made;
    {
      const OriginScope place(Origin{place_of(name), {}, 0}, OriginScope::Absolute);
      made = make_object<M>(std::forward<Args>(args)...);
    }
    M& result = *made;
    take_in({std::move(name), std::move(made), nullptr});
    return result;
  }
  virtual bool is_container() const { return false; }  // it is never called, its elements are
  virtual void require_member(const Member&) const {}  // ValueError if it cannot hold this
  std::vector<std::string> place_of(const PathPart& member) const;
  // What a child adds to the origin of its equations.
  std::vector<std::string> scope_of(const PathPart& child) const;
  void rename(std::vector<std::string> scope);
  void share_object(std::string name, Module&);
  void share_object(std::string name, State&);
  void add_state(std::string name, std::shared_ptr<State>);
  void attach(Member);
  void replace(Member);
  void require_attachable(const Member&) const;
  std::size_t position_of_attached(const PathPart& name) const;
  void take_in(Member);  // its first place is here
  void add_member(Member);
  void let_go(const Member&);  // its first place is no longer here
  bool is_home_of(const Member&) const;
  void move_to(std::vector<std::string> place);
  void remember(State&, std::function<NamedArrays()> draw);
  void follow(const std::shared_ptr<ModeState>& mode);

  std::shared_ptr<ModeState> mode_;  // one for a tree
  std::vector<Member> members_;
  std::vector<std::string> scope_, place_;
  bool at_home_ = false;  // some module is its first place
};

// add<M>(arguments…) makes a module at the end of self.list(), also with the options of M in braces behind up
// to three other arguments: add<nn::LIF>(4, {.tau = 10.0}).
template <class Self>
class AddsModules {
 public:
  template <std::derived_from<Module> M, class... Args>
  M& add(Args&&... args) {
    return place().template append<M>(std::forward<Args>(args)...);
  }
  template <std::derived_from<Module> M>
  M& add(const typename M::Options& o) {
    return place().template append<M>(o);
  }
  template <std::derived_from<Module> M, class A>
  M& add(A&& a, const typename M::Options& o) {
    return place().template append<M>(std::forward<A>(a), o);
  }
  template <std::derived_from<Module> M, class A, class B>
  M& add(A&& a, B&& b, const typename M::Options& o) {
    return place().template append<M>(std::forward<A>(a), std::forward<B>(b), o);
  }
  template <std::derived_from<Module> M, class A, class B, class C>
  M& add(A&& a, B&& b, C&& c, const typename M::Options& o) {
    return place().template append<M>(std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), o);
  }

 private:
  auto& place() { return static_cast<Self*>(this)->list(); }
};

// Modules by position: the i-th has the path part i. The list itself is no step; call its elements.
class ModuleList : public Module, public AddsModules<ModuleList> {
 public:
  std::size_t size() const { return members().size(); }
  Module& operator[](std::size_t i) const;  // ValueError out of range
  ModuleList& list() { return *this; }

  // Another module at the end; detach() takes only the last one away.
  void append(std::shared_ptr<Module> module) { attach(next(), std::move(module)); }
  using Module::attach;

 private:
  template <class Self>
  friend class AddsModules;
  template <std::derived_from<Module> M, class... Args>
  M& append(Args&&... args) {
    return make_child<M>(next(), std::forward<Args>(args)...);
  }
  PathPart next() const { return static_cast<std::int64_t>(size()); }
  bool is_container() const override { return true; }
  void require_member(const Member&) const override;
};

// Modules by name, which are attached. The dictionary itself is no step; call its elements.
class ModuleDict : public Module {
 private:
  bool is_container() const override { return true; }
  void require_member(const Member&) const override;
};

// One after the other; states have paths such as layers/0/h.
class Sequential : public Module, public AddsModules<Sequential> {
 public:
  Sequential();
  ModuleList& layers;
  ModuleList& list() { return layers; }
  Array update(const Array& x) override;
};

struct StateEntry {
  StatePath path;
  State* state;  // owned by the model
};
// Depth first; members by ascending name, elements by index. A shared object appears at its first place.
std::vector<StateEntry> states(const Module&, StateKind kind = StateKind::Any);
State* find_state(const Module&, const StatePath&);  // null if there is none

// Initial values for all short-term states; a batch gives every per-sample state a leading axis of that size.
void init_all_states(Module&, std::optional<std::int64_t> batch = std::nullopt);
// The same with the batch that each state has.
void reset_all_states(Module&);

// Tracing ---------------------------------------------------------------------------------------------------
struct TracedStep {
  // Inputs: arguments, then the leaves of every touched state in order of first touch. Outputs: results, then
  // the same leaves.
  Model model;
  std::vector<State*> touched;       // one per state, in that order; owned by whoever made them
  std::vector<StatePath> untouched;  // states of the module that the step neither read nor wrote
  std::vector<StatePath> unknown;    // touched states that the module does not hold: _unknown_path_0 …
};
// Traces one step. Afterwards, also if it throws, every state holds what it held before.
// NotSupportedError: a parameter is written; a state is written inside the body of a jit, scan, cond, while
// or transform; a trace_step within a trace_step.
TracedStep trace_step(Module&, std::span<const Aval> args, std::string name = "model");
TracedStep trace_step(Module&, ArraySpan example_args, std::string name = "model");
TracedStep trace_step(Module&, const Array& example, std::string name = "model");

}  // namespace etrace
#pragma GCC visibility pop
