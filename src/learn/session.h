// The numbers of a learner: parameters, states, what the rule remembers, the optimiser's slots, sums of
// gradients. Each lives once, in a buffer under its role and name. A program is bound to these buffers by the
// names of its ports, once, and launched.
//
// Values that belong to a model or an optimiser have versions (etrace/versioned_array.h): a launch looks
// whether somebody has written them, and takes the new value; what it writes itself stays here until the
// owner is asked for it. Nothing is copied that nobody asked for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/backend.h"
#include "etrace/module.h"
#include "etrace/optim.h"

namespace etrace {

class Session final : public ArrayKeeper {
 public:
  Session() = default;
  ~Session();  // everything goes back to its owner
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Places, each with a role and a name of its own.
  void add(PortRole, std::string name, Tensor value);
  // The value is the owner's from now on.
  void attach(PortRole, std::string_view name, const std::shared_ptr<State>& owner, std::size_t leaf);
  // Slots of this optimiser, under the names of these parameters; those of another one go back to it.
  // ValueError if it has no state for one of them.
  void use(const optim::Optimizer&, std::span<const ParamLeafId> leaves);

  Tensor value(PortRole, std::string_view name);  // the newest; later launches do not change it
  void set(PortRole, std::string_view name, const Tensor& value);  // of the same type
  std::int64_t integer(PortRole, std::string_view name);           // the newest, of a scalar, without a copy
  Tensor taken(PortRole, std::string_view name);  // the session's own value, which is then gone
  void bring_back();                              // the newest values to their owners

  Array hand_over(std::size_t ticket) override;

 private:
  friend class Launch;
  struct Place {
    PortRole role;
    std::string name;
    Tensor value;
    std::shared_ptr<void> owner = {};  // keeps `source` alive
    VersionedArray* source = nullptr;  // null: the session's own
    std::uint64_t seen = 0;            // version of the source that `value` is
  };
  Place& find(PortRole, std::string_view name);
  Place& at(std::size_t ticket) {
    return ticket < places_.size() ? places_[ticket] : slots_[ticket - places_.size()];
  }
  std::size_t ticket_of(PortRole, std::string_view name) const;
  const void* read(Place&);                 // its newest value
  void* write(Place&, std::size_t ticket);  // the same, in a buffer that nobody else holds
  void give_back(std::vector<Place>&);

  std::vector<Place> places_, slots_;
  const void* optimizer_ = nullptr;  // whose slots they are
  std::uint64_t generation_ = 0;     // raised when places come and go
};

// A program on its backend, bound to a session. Arguments that no place of the session stands for are given
// by the caller, results that are not carried on are taken by it.
class Launch {
 public:
  Launch(Session&, Program, std::shared_ptr<const Runnable>);

  const Program& program() const { return program_; }
  const Runnable& code() const { return *code_; }
  // Where a port stands, by name; InternalError if the program has none.
  std::size_t argument(PortRole, std::string_view name) const;
  std::size_t result(PortRole, std::string_view name) const;
  void give(std::size_t argument, const void* data) { in_[argument] = data; }
  void take(std::size_t result, void* data) { out_[result] = data; }
  Tensor keep(std::size_t result);  // a buffer of the launch's own, the same at every run

  // All that the first run would allocate: buffers that nobody else holds, and what the code needs.
  void prepare();
  // False: what would have been carried on is not finite, and nothing that is carried on has changed.
  bool run();

 private:
  struct Bound {
    std::size_t argument, ticket;
    std::optional<std::size_t> result;  // replaced in place
  };
  void bind();
  void point_to_places();

  Session& session_;
  Program program_;
  std::shared_ptr<const Runnable> code_;
  std::uint64_t generation_;
  std::vector<Bound> bound_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<std::pair<std::size_t, Tensor>> kept_;
  std::optional<std::size_t> finite_;
};

}  // namespace etrace
