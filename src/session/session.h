// The numbers that programs work on: parameters, states, what a rule remembers, an optimiser's slots, sums of
// gradients. Each lives once, in a buffer under its role and name. A program is bound to these buffers by the
// names of its ports, once, and launched. Learners, scores, reference gradients and optimisers all run so.
//
// Values that belong to a model or an optimiser have versions (etrace/versioned_array.h): a launch looks
// whether somebody has written them, and takes the new value; what it writes itself stays here until the
// owner is asked for it. Nothing is copied that nobody asked for.
//
// On a backend with memory of its own every place also has a buffer there. It is uploaded when the host has
// written the value since, and downloaded when the host asks; what goes on from launch to launch stays there.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "etrace/backend.h"
#include "etrace/versioned_array.h"

#pragma GCC visibility push(default)
namespace etrace {

class Session final : public ArrayKeeper {  // NOLINT(cppcoreguidelines-virtual-class-destructor): final
 public:
  explicit Session(const DeviceMemory* memory = nullptr) : memory_(memory) {}  // as Backend::memory()
  ~Session();  // everything goes back to its owner
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Places, each with a role and a name of its own.
  void add(PortRole, std::string name, Tensor value);
  // The value is the owner's from now on: `source`, which is part of it.
  void attach(PortRole, std::string_view name, std::shared_ptr<void> owner, VersionedArray& source);
  // Places that come and go together, all parts of one owner; those of the owner before go back to it.
  struct Part {
    PortRole role;
    std::string name;
    VersionedArray* source;
  };
  bool uses(const void* owner) const { return guest_ == owner; }
  void use(const std::shared_ptr<void>& owner, std::span<const Part> parts);

  Tensor value(PortRole, std::string_view name);  // the newest; later launches do not change it
  void set(PortRole, std::string_view name, const Tensor& value);  // of the same type
  std::int64_t integer(PortRole, std::string_view name);           // the newest, of a scalar, without a copy
  Tensor taken(PortRole, std::string_view name);             // the session's own value, which is then gone
  void bring_back();                                         // the newest values to their owners
  void clear(PortRole, std::string_view name, const Aval&);  // the session's own value becomes zeros

  Array hand_over(std::size_t ticket) override;

 private:
  friend class Launch;
  static std::uint64_t fresh_version();  // that nothing in the process has had
  struct Place {
    PortRole role;
    std::string name;
    Tensor value;
    std::shared_ptr<void> owner = {};         // keeps `source` alive
    VersionedArray* source = nullptr;         // null: the session's own
    std::uint64_t seen = 0;                   // version of the source that `value` is
    std::uint64_t version = fresh_version();  // of `value`: every write raises it (Runnable::run_at)
    Tensor spare = {};                        // for what takes the value's place
    // On a device: the same value there, unless one of the two is older.
    std::shared_ptr<void> device = {}, device_spare = {};
    bool device_is_older = true, host_is_older = false;
  };
  Place& find(PortRole, std::string_view name);
  Place& at(std::size_t ticket) {
    return ticket < places_.size() ? places_[ticket] : parts_[ticket - places_.size()];
  }
  std::size_t ticket_of(PortRole, std::string_view name) const;
  const void* read(Place&);                     // its newest value, where programs find it
  void claim(Place&, std::size_t ticket);       // what it holds from now on is the newest
  void* write(Place&, std::size_t ticket);      // the same, in a buffer that nobody else holds
  void* successor(Place&, std::size_t ticket);  // a buffer that takes its place …
  void exchange(Place&);                        // … now
  void refresh(Place&);                         // from its owner
  void* on_device(Place&);
  const Tensor& on_host(Place&);
  void put(Place&, Tensor);
  void seen(Place&, const void* bytes);  // what the device holds
  void give_back(std::vector<Place>&);

  const DeviceMemory* memory_;  // null: that of the host
  std::vector<Place> places_, parts_;
  const void* guest_ = nullptr;   // whose parts they are
  std::uint64_t generation_ = 0;  // raised when places come and go
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
  // Memory of the host, which is read, or written, by every run until it is given, or taken, anew.
  void give(std::size_t argument, const void* data) { (outside_.empty() ? in_ : host_in_)[argument] = data; }
  void take(std::size_t result, void* data) { (outside_.empty() ? out_ : host_out_)[result] = data; }
  Tensor keep(std::size_t result);  // a buffer of the launch's own, the same at every run

  // All that the first run would allocate: buffers that nobody else holds, and what the code needs.
  void prepare();
  // False: what would have been carried on is not finite, and nothing that is carried on has changed.
  bool run() {
    start();
    return finish();
  }
  // The same in two halves; a device may work between them.
  void start();
  bool finish();
  // On a device, in between: data of an argument for the next run, which goes there beside this one. It is
  // given to that run by take_ahead(), in place of give(). False: there is no device, or no room on it, and
  // nothing that was given ahead counts.
  bool give_ahead(std::size_t argument, const void* data);
  void take_ahead();
  // Of the last run: all went on, but for elements whose new values were not finite, which stay as they were.
  bool left_some() const;

 private:
  struct Bound {
    std::size_t argument, ticket;
    std::optional<std::size_t> result;     // replaced in place
    std::optional<std::size_t> successor;  // the result that changes places with it
    bool counts = false;                   // a single integer that the program replaces: the host follows it
    std::int64_t count = 0;
  };
  void bind();
  void point_to_places();
  void point_outside();
  void list_copies();

  Session& session_;
  Program program_;
  std::shared_ptr<const Runnable> code_;
  std::uint64_t generation_;
  std::vector<Bound> bound_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<std::uint64_t> versions_;  // of the arguments; 0: the caller's
  // On a device: what was given and taken, and the buffers there that stand for it, arguments then results.
  std::vector<const void*> host_in_;
  std::vector<void*> host_out_;
  std::vector<std::shared_ptr<void>> outside_, ahead_;
  std::vector<std::size_t> given_ahead_;
  std::vector<DeviceMemory::Upload> given_;
  std::vector<DeviceMemory::Download> taken_;
  bool is_done_ = true;  // of the run that was started: nothing is to be waited for
  std::vector<std::pair<std::size_t, Tensor>> kept_;
  const bool *finite_ = nullptr, *updated_ = nullptr;  // answers of the last run; null: there is none
};

}  // namespace etrace
#pragma GCC visibility pop
