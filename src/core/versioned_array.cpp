#include "etrace/versioned_array.h"

#include <utility>

#include "core/recorder.h"

namespace etrace {

VersionedArray::VersionedArray(const Array& value) : value_(own(value)), aval_(value_.aval()) {}

const Array& VersionedArray::get() const {
  if (keeper_ != nullptr && !value_.defined()) value_ = keeper_->hand_over(ticket_);
  return value_;
}

void VersionedArray::set(Array value) {
  value_ = own(std::move(value));
  aval_ = value_.aval();
  keeper_ = nullptr;
  ++version_;
}

void VersionedArray::kept_by(ArrayKeeper& keeper, std::size_t ticket) {
  value_ = Array();
  keeper_ = &keeper;
  ticket_ = ticket;
  ++version_;
}

void VersionedArray::bring_back(Array value) {
  if (!value_.defined()) value_ = std::move(value);
  keeper_ = nullptr;
}

Array VersionedArray::exchange(Array value) const { return std::exchange(value_, own(std::move(value))); }

}  // namespace etrace
