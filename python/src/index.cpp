// Indexing as in NumPy: slices and single positions first, then all integer arrays by one gather.
#include "index.h"

#include <algorithm>
#include <unordered_set>

#include "convert.h"
#include "errors.h"
#include "numbers.h"

namespace etrace::python {

namespace {

struct Item {
  enum Kind : std::uint8_t { Slice, NewAxis, Single, Many } kind;
  std::int64_t start = 0, count = 0, step = 1;  // Slice
  std::int64_t position = 0;                    // Single: not negative
  Array indices = {};                           // Many: integers, or one traced integer
};

[[noreturn]] void out_of_range(std::int64_t i, std::int64_t n, std::size_t axis) {
  throw IndexError("index", "position " + std::to_string(i) + " of axis " + std::to_string(axis) +
                                ", which has " + std::to_string(n) + " entries");
}

std::int64_t wrapped(std::int64_t i, std::int64_t n, std::size_t axis) {
  if (i < -n || i >= n) out_of_range(i, n, axis);
  return i < 0 ? i + n : i;
}

// Positions along an axis of n entries, none negative, none outside.
Array inside(const Array& indices, std::int64_t n, std::size_t axis) {
  if (indices.is_tracer()) {
    const Array i = indices.dtype() == Dtype::U32 ? convert(indices, Dtype::I64) : indices;
    return clamp(0, where(less(i, 0), i + Array(n), i), Array(n - 1));
  }
  const Tensor t = indices.tensor();
  Tensor out = Tensor::uninitialized({Dtype::I64, t.shape()});
  auto* to = reinterpret_cast<std::int64_t*>(out.writable());
  for (std::int64_t k = 0; k < t.size(); ++k) to[k] = wrapped(to_int(t.at(k)), n, axis);
  return n <= (std::int64_t{1} << 31) - 1 ? convert(Array(out), Dtype::I32) : Array(out);
}

// Where a boolean array of known value is true: one list of positions per axis.
std::vector<Array> true_positions(const Array& mask) {
  const Tensor t = mask.tensor();
  const Dims strides = strides_of(mask.shape());
  std::vector<std::vector<std::int64_t>> positions(mask.rank());
  const auto values = t.data<bool>();
  for (std::size_t k = 0; k < values.size(); ++k)
    if (values[k])
      for (std::size_t axis = 0; axis < positions.size(); ++axis)
        positions[axis].push_back(static_cast<std::int64_t>(k) / strides[axis] % mask.shape()[axis]);
  std::vector<Array> out;
  for (const auto& p : positions) out.emplace_back(Tensor::of(p, {static_cast<std::int64_t>(p.size())}));
  return out;
}

// --- reading the index -----------------------------------------------------------------------------------

class IndexReader {
 public:
  IndexReader(const Array& x, nb::handle index) : x_(x) {
    std::vector<nb::object> parts;
    if (PyTuple_Check(index.ptr()))
      for (nb::handle h : nb::iter(index)) parts.push_back(nb::borrow(h));
    else
      parts.push_back(nb::borrow(index));
    std::size_t taken = 0, ellipses = 0;
    for (nb::object& p : parts) {
      p = list_as_array(p);
      if (p.is(Py_Ellipsis))
        ++ellipses;
      else
        taken += axes_taken(p);
    }
    if (ellipses > 1) throw IndexError("index", "an index can have one ellipsis only");
    if (taken > x.rank())
      throw IndexError("index", "an index for " + std::to_string(taken) + " axes of an array of type " +
                                    to_string(x.aval()));
    for (const nb::object& p : parts) {
      if (p.is(Py_Ellipsis))
        for (std::size_t i = taken; i < x.rank(); ++i) items_.push_back(whole());
      else
        read(p);
    }
    while (axis_ < x.rank()) items_.push_back(whole());
  }

  std::vector<Item> items() && { return std::move(items_); }

 private:
  static bool is_integer_object(nb::handle p) {
    if (PyBool_Check(p.ptr()) || PyIndex_Check(p.ptr()) == 0) return false;
    if (!is_array(p)) return !nb::hasattr(p, "ndim") || nb::cast<int>(p.attr("ndim")) == 0;
    const Array a = nb::cast<Array>(p);
    return a.rank() == 0 && is_integer(a.dtype()) && !a.is_tracer();
  }
  static nb::object list_as_array(const nb::object& p) {
    if (!PyList_Check(p.ptr())) return p;
    if (nb::len(p) == 0) return nb::cast(zeros({0}, Dtype::I32));
    return nb::cast(to_array(p));
  }
  static std::size_t axes_taken(nb::handle p) {
    if (p.is_none()) return 0;
    if (PySlice_Check(p.ptr()) || is_integer_object(p)) return 1;
    if (PyBool_Check(p.ptr()))
      throw NotSupportedError("index", "True or False as an index; use et.where, or None for a new axis");
    const Array a = to_array(p);
    return a.dtype() == Dtype::Bool ? a.rank() : 1;
  }
  std::int64_t size() const { return x_.shape()[axis_]; }
  Item whole() {
    Item item{Item::Slice, 0, size(), 1};
    ++axis_;
    return item;
  }

  void read(nb::handle p) {
    if (p.is_none()) {
      items_.push_back({Item::NewAxis});
    } else if (PySlice_Check(p.ptr())) {
      items_.push_back(slice_item(p));
      ++axis_;
    } else if (is_integer_object(p)) {
      const nb::object number = nb::steal(PyNumber_Index(p.ptr()));
      if (!number.is_valid()) throw nb::python_error();
      Item item{Item::Single};
      int beyond = 0;
      const std::int64_t position = PyLong_AsLongLongAndOverflow(number.ptr(), &beyond);
      if (beyond != 0)
        throw IndexError("index", "position " + text_of(number) + " of axis " + std::to_string(axis_) +
                                      " of an array of type " + to_string(x_.aval()));
      item.position = wrapped(position, size(), axis_);
      items_.push_back(item);
      ++axis_;
    } else {
      read_array(to_array(p));
    }
  }

  Item slice_item(nb::handle p) const {
    for (const char* bound : {"start", "stop", "step"})
      if (const nb::object b = p.attr(bound); is_array(b) && nb::cast<Array>(b).is_tracer())
        throw TypeError(
            "index",
            "a traced value as a bound of a slice: the size of the result would not be known; use "
            "et.dynamic_slice");
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(p.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
    const Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(size()), &start, &stop, step);
    return {Item::Slice, start, count, step};
  }

  void read_array(const Array& a) {
    if (a.dtype() == Dtype::Bool) {
      if (a.is_tracer())
        throw TypeError(
            "index",
            "a traced array of truth values as an index: the size of the result would not be known; "
            "use et.where");
      for (std::size_t i = 0; i < a.rank(); ++i)
        if (a.shape()[i] != x_.shape()[axis_ + i])
          throw IndexError("index", "truth values of shape " + to_string(a.shape()) + " for axis " +
                                        std::to_string(axis_ + i) + " of an array of type " +
                                        to_string(x_.aval()));
      for (const Array& p : true_positions(a)) add_many(p);
      return;
    }
    if (!is_integer(a.dtype()))
      throw TypeError(
          "index", "an array of type " + to_string(a.aval()) + " is no index; integers or truth values are");
    add_many(a);
  }
  void add_many(const Array& a) {
    Item item{Item::Many};
    item.indices = inside(a, size(), axis_);
    items_.push_back(item);
    ++axis_;
  }

  const Array& x_;
  std::size_t axis_ = 0;  // next axis of x
  std::vector<Item> items_;
};

// --- applying it -----------------------------------------------------------------------------------------

// All slices and, where there are no arrays, single positions: slice, rev, reshape.
Array apply_slices(const Array& x, const std::vector<Item>& items) {
  Dims start, limit, step, backwards, sizes;
  bool whole = true;
  for (const Item& item : items) {
    const std::size_t axis = start.size();
    if (item.kind == Item::NewAxis) {
      sizes.push_back(1);
      continue;
    }
    const std::int64_t n = x.shape()[axis];
    if (item.kind == Item::Single) {
      start.push_back(item.position);
      limit.push_back(item.position + 1);
      step.push_back(1);
    } else if (item.kind == Item::Many) {
      start.push_back(0);
      limit.push_back(n);
      step.push_back(1);
      sizes.push_back(n);
    } else {
      const std::int64_t stride = std::abs(item.step);
      const std::int64_t last = item.start + (item.count - 1) * item.step;
      const std::int64_t first = item.count == 0 ? 0 : std::min(item.start, last);
      start.push_back(first);
      limit.push_back(item.count == 0 ? 0 : std::max(item.start, last) + 1);
      step.push_back(item.count <= 1 ? 1 : stride);
      if (item.step < 0 && item.count > 1) backwards.push_back(static_cast<std::int64_t>(axis));
      sizes.push_back(item.count);
    }
    whole &= start.back() == 0 && limit.back() == n && step.back() == 1;
  }
  Array y = whole ? x : slice(x, start, limit, step);
  if (!backwards.empty()) y = rev(y, backwards);
  return y.shape() == Shape(sizes) ? y : reshape(y, sizes);
}

// Axes picked by arrays of positions go to the front and are joined; one gather picks from them.
Array gather_many(const Array& y, const std::vector<int>& axes, const Arrays& indices, bool together) {
  if (axes.size() == 1 && together) {
    const Array& i = indices[0];
    if (i.rank() == 0 && i.is_tracer()) return dynamic_index(y, i, axes[0]);
    return take(y, i, axes[0]);
  }
  Dims order, rest_sizes;
  for (const int a : axes) order.push_back(a);
  std::int64_t joined = 1, before = 0;
  for (const int a : axes) joined *= y.shape()[static_cast<std::size_t>(a)];
  for (int a = 0; a < static_cast<int>(y.rank()); ++a)
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) {
      order.push_back(a);
      rest_sizes.push_back(y.shape()[static_cast<std::size_t>(a)]);
      if (a < axes[0]) ++before;
    }
  Dims sizes{joined};
  sizes.insert(sizes.end(), rest_sizes.begin(), rest_sizes.end());
  Shape shape;
  for (const Array& i : indices) {
    const auto s = numpy_broadcast_shapes(shape, i.shape());
    if (!s)
      throw IndexError("index", "arrays of positions of shapes " + to_string(shape) + " and " +
                                    to_string(i.shape()) + " do not broadcast together");
    shape = *s;
  }
  Array flat;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const Array i = joined > (std::int64_t{1} << 31) - 1 ? convert(indices[k], Dtype::I64) : indices[k];
    const std::int64_t n = y.shape()[static_cast<std::size_t>(axes[k])];
    flat = flat.defined() ? flat * Array(n) + i : i;
  }
  Array picked = take(reshape(transpose(y, order), sizes), broadcast_to(flat, shape), 0);
  if (!together || before == 0) return picked;
  // The axes of the positions stand where the first of the picked axes stood.
  const auto r = static_cast<std::int64_t>(shape.rank()), all = static_cast<std::int64_t>(picked.rank());
  Dims back;
  for (std::int64_t a = r; a < r + before; ++a) back.push_back(a);
  for (std::int64_t a = 0; a < r; ++a) back.push_back(a);
  for (std::int64_t a = r + before; a < all; ++a) back.push_back(a);
  return transpose(picked, back);
}

Array apply(const Array& x, std::vector<Item> items) {
  const bool many =
      std::any_of(items.begin(), items.end(), [](const Item& i) { return i.kind == Item::Many; });
  if (!many) return apply_slices(x, items);
  for (Item& item : items)  // beside arrays, a single position is an array of one
    if (item.kind == Item::Single) {
      item.kind = Item::Many;
      item.indices = full({}, item.position, Dtype::I32);
    }
  std::vector<int> axes;
  Arrays indices;
  bool together = true;
  int axis = 0, last = -1;
  for (std::size_t k = 0; k < items.size(); ++k, ++axis)
    if (items[k].kind == Item::Many) {
      axes.push_back(axis);
      indices.push_back(items[k].indices);
      together &= last < 0 || static_cast<int>(k) == last + 1;
      last = static_cast<int>(k);
    }
  return gather_many(apply_slices(x, items), axes, indices, together);
}

}  // namespace

Array get_item(const Array& x, nb::handle index) { return apply(x, IndexReader(x, index).items()); }

}  // namespace etrace::python
