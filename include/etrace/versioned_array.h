// An array with one truth and a version. Its newest value is here, or with a keeper that has gone on with it
// in buffers of its own (a learner) and hands it over as soon as somebody asks. Every write raises the
// version: who keeps a copy, or a fact about the value, remembers the version it was taken at and looks
// before use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "etrace/array.h"

#pragma GCC visibility push(default)
namespace etrace {

class VersionedArray;

class ArrayKeeper {
 public:
  // The newest value of an array that it keeps; `ticket` as it gave it to kept_by().
  virtual Array hand_over(std::size_t ticket) = 0;

 protected:
  ~ArrayKeeper() = default;
};

class VersionedArray {
 public:
  explicit VersionedArray(const Array& value);  // memory of somebody else is copied

  const Array& get() const;                   // brought back if a keeper has it
  const Aval& aval() const { return aval_; }  // asking is no read
  std::uint64_t version() const { return version_; }
  void set(Array value);  // a write, of a value of any type

  // For keepers. From now on the newest value is with the keeper; what lies here is let go. Called anew with
  // every value that the keeper makes. The keeper stays alive for as long as it keeps the array.
  void kept_by(ArrayKeeper&, std::size_t ticket);
  bool is_kept_by(const ArrayKeeper& keeper) const { return keeper_ == &keeper; }
  // The keeper's last value, and no longer kept.
  void bring_back(Array value);

  // For a trace, which puts tracers here for the time being: no write.
  Array exchange(Array value) const;

 private:
  mutable Array value_;  // mutable: brought back by a read
  Aval aval_;
  mutable ArrayKeeper* keeper_ = nullptr;
  std::size_t ticket_ = 0;
  std::uint64_t version_ = 1;
};

}  // namespace etrace
#pragma GCC visibility pop
