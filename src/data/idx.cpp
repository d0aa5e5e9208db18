// IDX, the format of MNIST: 0, 0, element type, rank; the sizes, u32 big-endian; the numbers, big-endian.
// Packed or not. A folder holds {train,t10k}-{images-idx3,labels-idx1}-ubyte.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "data/reader.h"
#include "data/text_file.h"
#include "etrace/error.h"

namespace etrace::data {

namespace {

struct IdxArray {
  std::vector<std::int64_t> sizes;
  std::vector<float> values;
};

struct IdxType {
  std::uint64_t code;
  std::size_t bytes;
};
constexpr IdxType kIdxTypes[] = {{0x08, 1}, {0x09, 1}, {0x0B, 2}, {0x0C, 4}, {0x0D, 4}, {0x0E, 8}};

double idx_number(std::uint64_t code, std::uint64_t bits) {
  switch (code) {
    case 0x09:
      return static_cast<std::int8_t>(bits);
    case 0x0B:
      return static_cast<std::int16_t>(bits);
    case 0x0C:
      return static_cast<std::int32_t>(bits);
    case 0x0D:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case 0x0E:
      return std::bit_cast<double>(bits);
    default:
      return static_cast<double>(bits);
  }
}

IdxArray read_idx(const std::string& path) {
  const std::string bytes = read_unpacked(path);
  Bytes in(bytes, path);
  if (in.big(2, "the first bytes") != 0) bad_byte(path, 0, "an IDX file begins with two zeros");
  const std::uint64_t code = in.big(1, "the element type"), rank = in.big(1, "the rank");
  const IdxType* type = nullptr;
  for (const IdxType& t : kIdxTypes)
    if (t.code == code) type = &t;
  if (type == nullptr) bad_byte(path, 2, fmt::format("the element type {:#04x} is none of IDX", code));
  if (rank == 0) bad_byte(path, 3, "an array without an axis");
  IdxArray out;
  std::uint64_t count = 1;
  for (std::uint64_t k = 0; k < rank; ++k) {
    const std::uint64_t size = in.big(4, "the sizes");
    constexpr std::uint64_t kMost = std::uint64_t{1} << 40U;  // numbers; products stay far from overflow
    if (size > kMost / std::max<std::uint64_t>(count, 1))
      in.fail(fmt::format("axis {} of {} makes it larger than any file", k, size));
    if (size == 0) in.fail(fmt::format("axis {} of 0: an array without a number", k));
    count *= size;
    out.sizes.push_back(static_cast<std::int64_t>(size));
  }
  in.need(count * type->bytes, "the numbers");
  if (in.left() != count * type->bytes)
    in.fail(fmt::format("{} bytes follow, but its sizes ask for {}", in.left(), count * type->bytes));
  out.values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t at = in.at();
    const double value = idx_number(code, in.big(type->bytes, "the numbers"));
    if (!is_data_number(value)) bad_byte(path, at, fmt::format("{} is {}", value, kNoNumber));
    out.values.push_back(static_cast<float>(value));
  }
  return out;
}

// "…images-idx3-ubyte.gz" -> "…labels-idx1-ubyte.gz", packed or not, whichever is there.
std::string labels_beside(const std::string& images) {
  std::string path = images;
  const auto replace = [&](std::string_view what, std::string_view with) {
    const std::size_t at = path.rfind(what);
    if (at != std::string::npos) path.replace(at, what.size(), with);
  };
  replace("images", "labels");
  replace("idx3", "idx1");
  const std::string other = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path + ".gz";
  if (path != images && is_file(path)) return path;
  if (path != images && is_file(other)) return other;
  throw ValueError("data", fmt::format("the labels of '{}' are missing: there is no '{}'", images, path));
}

bool is_images(const std::string& path) { return file_name(path).find("-images-idx3") != std::string::npos; }

void add_images(DenseData& data, const std::string& path, Given part, std::int64_t per_step) {
  const std::string of_labels = labels_beside(path);
  const IdxArray images = read_idx(path), labels = read_idx(of_labels);
  if (images.sizes.size() < 2) bad_byte(path, 3, "expected images: two axes or more");
  if (labels.sizes.size() != 1 || labels.sizes[0] != images.sizes[0])
    bad_byte(of_labels, 4,
             fmt::format("{} labels for {} images of '{}'", labels.sizes.empty() ? 0 : labels.sizes[0],
                         images.sizes[0], path));
  std::int64_t pixels = 1;
  for (std::size_t k = 1; k < images.sizes.size(); ++k) pixels *= images.sizes[k];
  const std::int64_t channels = per_step > 0 ? per_step : images.sizes.back();
  if (channels < 1 || pixels % channels != 0)
    throw ValueError("data", fmt::format("the option pixels is {}, but an image of '{}' has {} of them",
                                         channels, path, pixels));
  if (data.channels != 0 && data.channels != channels)
    bad_byte(path, 4, fmt::format("images with rows of {}, those before had {}", channels, data.channels));
  data.channels = channels;
  for (std::int64_t i = 0; i < images.sizes[0]; ++i) {
    std::vector<float> values;
    for (std::int64_t k = 0; k < pixels; ++k)
      values.push_back(static_cast<float>(
          static_cast<double>(images.values[static_cast<std::size_t>(i * pixels + k)]) / 255.0));
    const float label = labels.values[static_cast<std::size_t>(i)];
    data.add(
        {.steps = pixels / channels, .label = class_number(data, fmt::format("{}", label)), .part = part},
        values);
  }
  note_file(data, path);
  note_file(data, of_labels);
}

std::unique_ptr<Dataset> read_images(const std::string& path, const ReaderOptions& o) {
  auto data = std::make_unique<DenseData>();
  const std::int64_t per_step = o.whole("pixels", 0, 1 << 24);
  const std::vector<std::string> files = is_folder(path) ? files_in(path) : std::vector<std::string>{path};
  for (const std::string& file : files) {
    if (!is_images(file) && is_folder(path)) continue;
    const bool test = file_name(file).starts_with("t10k") || file_name(file).starts_with("test");
    const bool train = file_name(file).starts_with("train");
    add_images(*data, file, test ? Given::Test : train ? Given::Train : Given::Nothing, per_step);
  }
  sort_classes(*data);
  return data;
}

bool is_idx(const std::string& path) {
  if (!is_folder(path)) return is_images(path);
  const auto files = files_in(path);
  return std::any_of(files.begin(), files.end(), is_images);
}

const RegisterReader kIdx(
    {.name = "idx",
     .doc = "images and labels of MNIST's kind, a folder or the file of the images; also .gz",
     .options = {{"pixels", "0", "pixels per step; 0: a row"}},
     .recognises = is_idx,
     .read = read_images});

}  // namespace

}  // namespace etrace::data
