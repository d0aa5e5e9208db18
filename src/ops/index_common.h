// What gather, scatter and the dynamic slices share: a window of the operand for every vector of indices.
//
// indices[b…, :] gives the start of a window along the operand axes `index_map`; the window's own axes are
// the axes `window` of the result of a gather (of the updates of a scatter), all other axes of it are b.
// Private to ops/.
#pragma once

#include <optional>

#include "ops/structure_common.h"

namespace etrace::structure {

struct WindowDims {
  Dims window;            // axes of the result that lie inside a window, ascending
  Dims collapsed;         // operand axes in which a window has size 1 and which it does not show
  Dims index_map;         // the operand axis of each component of an index vector
  Dims operand_batching;  // operand axes that run together with …
  Dims indices_batching;  // … these axes of the indices
};
WindowDims gather_dims(const Params&);
WindowDims scatter_dims(const Params&);
Attr gather_attr(const WindowDims&);
Attr scatter_attr(const WindowDims&);
// The same operation behind a leading axis of the operand, the indices, or both.
WindowDims batched_dims(const WindowDims&, bool operand, bool indices);

// Where an axis of the operand is among the axes of the windows (a gather's result, a scatter's updates) and
// of the indices.
struct WindowAxis {
  std::optional<std::size_t> windows;  // none: moved by the indices
  std::optional<std::size_t> indices;  // none: the same windows for all of it
};
WindowAxis window_axis(const WindowDims&, const Shape& operand, const Shape& windows, const Dims& sizes,
                       std::size_t axis);

// One entry along `axis` for each index (an array of rank index_rank); the other axes are whole.
WindowDims take_dims(std::size_t rank, std::size_t axis, std::size_t index_rank);
// Negative indices count from the end, once; what is then out of range is the primitive's matter.
Array wrap_negative(std::string_view op, const Array& indices, std::int64_t size);

// take_along_axis without the wrapping of negative indices.
Array gather_along_axis(const Array& x, const Array& indices, std::size_t axis);

enum class Mode : std::uint8_t { Clip, FillOrDrop };  // "promise_in_bounds" is clipped: never reads elsewhere
Mode mode_of(std::string_view op, const Params&);

// The result of a gather, after all checks. `sizes` are those of the window, one for each operand axis.
Shape gathered_shape(std::string_view op, const WindowDims&, const Aval& x, const Aval& indices,
                     const Dims& sizes);
// The window sizes that the updates of a scatter imply.
Dims update_window_sizes(std::string_view op, const WindowDims&, const Aval& x, const Aval& updates);

// The windows of one gather or scatter, ready to be walked by a kernel.
class Windows {
 public:
  Windows(const WindowDims&, const Aval& x, const Aval& indices, const Shape& result, const Dims& sizes,
          Mode);

  Dims extents, x_strides, result_strides;  // of one window

  // f(offset in x, offset in the result, true if the window lies inside x), in row-major order of the index
  // vectors.
  template <class F>
  void for_each(const void* indices, F&& f) const {
    vectors_.for_each([&](const std::array<std::int64_t, 3>& at) {
      std::int64_t offset = at[2];
      bool inside = true;
      for (const Component& c : components_) {
        std::int64_t start = read_(indices, at[1] + c.index);
        if (start < 0 || start > c.limit) {
          inside = inside && mode_ == Mode::Clip;
          start = start < 0 ? 0 : c.limit;
        }
        offset += start * c.stride;
      }
      f(offset, at[0], inside);
    });
  }

 private:
  struct Component {
    std::int64_t index, limit, stride;  // the last start at which the window fits
  };
  std::vector<Component> components_;
  Box<3> vectors_;  // offsets in the result, in the indices, in x by batching axes
  ReadIndex read_;
  Mode mode_;
};

}  // namespace etrace::structure
