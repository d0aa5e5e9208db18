// Reading and writing of safetensors files.
#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include "io/json_node.h"
#include "io/tensor_file.h"

namespace etrace {

namespace {

constexpr const char* kStage = "safetensors";
constexpr const char* kMetadata = "__metadata__";  // the one key of the header that is no tensor
constexpr std::size_t kLengthBytes = 8;
constexpr std::array<std::string_view, 8> kDtypes{"BOOL", "I32", "I64", "U32", "F16", "BF16", "F32", "F64"};

std::string_view spelling(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

Dtype read_spelling(const Node& node) {
  const std::string text = node.text();
  for (std::size_t i = 0; i < kDtypes.size(); ++i)
    if (text == kDtypes[i]) return static_cast<Dtype>(i);
  // LIMIT: element types that a tensor can have; I8, U8, I16, U64, F8_E4M3 … are not converted.
  throw NotSupportedError(
      kStage, fmt::format("{}: the element type {} is not supported; convert the tensor to one of {}",
                          node.place(), json_text(Json(text)), fmt::join(kDtypes, ", ")));
}

// Reading ---------------------------------------------------------------------------------------------------
struct Entry {
  std::string name;
  Aval aval;
  std::size_t begin, end;  // in the data that follows the header
};

Entry read_entry(const std::string& name, const Node& node, std::size_t data_size) {
  node.allow({"dtype", "shape", "data_offsets"});
  const Node shape = node.at("shape"), range = node.at("data_offsets");
  Aval aval{read_spelling(node.at("dtype")), {}};
  try {
    aval.shape = Shape(shape.dims());
  } catch (const ValueError& e) {
    shape.fail(e.message());
  }
  const Dims offsets = range.dims();
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0])
    range.fail(fmt::format("found [{}], expected where the data begins and ends", fmt::join(offsets, ",")));
  const auto begin = static_cast<std::size_t>(offsets[0]), end = static_cast<std::size_t>(offsets[1]);
  if (end > data_size)
    range.fail(
        fmt::format("the data ends at byte {}, but the file holds {}; it may be truncated", end, data_size));
  if (end - begin != aval.bytes())
    range.fail(fmt::format("found {} bytes, expected {} for {}", end - begin, aval.bytes(), to_string(aval)));
  return {name, aval, begin, end};
}

// Tensors lie side by side: each byte of the data belongs to exactly one.
void require_no_gaps(const std::vector<Entry>& entries, std::size_t data_size) {
  std::size_t end = 0;
  for (const Entry& e : entries) {
    if (e.begin != end)
      throw CompilationError(
          kStage,
          fmt::format("{}.data_offsets: the data begins at byte {}, {} at byte {}", e.name, e.begin,
                      e.begin < end ? "inside a tensor that ends" : "after a gap; the tensor before it ends",
                      end));
    end = e.end;
  }
  if (end != data_size)
    throw CompilationError(
        kStage, fmt::format("the tensors end at byte {} of the data, but the file holds {}", end, data_size));
}

std::string_view header_of(std::string_view file) {
  if (file.size() < kLengthBytes)
    throw CompilationError(
        kStage,
        fmt::format("the file has {} bytes, expected at least the {} that give the length of the header",
                    file.size(), kLengthBytes));
  const auto length = number_at<std::uint64_t>(file, 0);
  const std::size_t rest = file.size() - kLengthBytes;
  if (length > rest)
    throw CompilationError(
        kStage, fmt::format("the header shall have {} bytes, but {} follow: the file is truncated or no "
                            "safetensors file",
                            length, rest));
  const std::string_view header = file.substr(kLengthBytes, length);
  if (!header.starts_with('{'))
    throw CompilationError(kStage, "the header does not start with '{': this is no safetensors file");
  return header;
}

Json parse_header(std::string_view header) {
  try {
    return parse_json(header);
  } catch (const CompilationError& e) {
    throw CompilationError(kStage, "header: " + e.message());
  }
}

std::pair<Named<Tensor>, Named<std::string>> read_tensors(std::string_view file) {
  const std::string_view header = header_of(file), data = file.substr(kLengthBytes + header.size());
  const Json json = parse_header(header);
  Named<std::string> metadata;
  std::vector<Entry> entries;
  for (const auto& [name, node] : Node(json, "").fields())
    if (name == kMetadata)
      metadata = read_named(node, [](const Node& n) { return n.text(); });
    else
      entries.push_back(read_entry(name, node, data.size()));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  require_no_gaps(entries, data.size());
  Named<Tensor> tensors;
  for (const Entry& e : entries) {
    tensors.emplace_back(e.name, Tensor::copy_of(e.aval, data.data() + e.begin));
    require_booleans(tensors.back().second, e.name, kStage);
  }
  return {std::move(tensors), std::move(metadata)};
}

// Writing ---------------------------------------------------------------------------------------------------
std::string metadata_json(const Named<std::string>& metadata) {
  std::set<std::string_view> keys;
  std::string out;
  for (const auto& [key, value] : metadata) {
    const std::string shown = json_string(key, kStage);
    if (!keys.insert(key).second)
      throw ValueError(kStage,
                       fmt::format("the metadata key {} is given twice; name the values apart", shown));
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", shown, json_string(value, kStage));
  }
  return "{" + out + "}";
}

}  // namespace

std::string write_safetensors(const Named<Tensor>& tensors, const Named<std::string>& metadata) {
  require_savable(tensors, kStage);
  // Wide types first: then every tensor lies at a multiple of its element's size, and readers may map it.
  std::vector<const std::pair<std::string, Tensor>*> order;
  for (const auto& t : tensors) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });

  std::string header = metadata.empty() ? "" : fmt::format("\"{}\":{}", kMetadata, metadata_json(metadata));
  std::size_t end = 0;
  for (const auto* t : order) {
    const Aval& aval = t->second.aval();
    if (t->first == kMetadata)
      throw ValueError(kStage, fmt::format("a tensor cannot be named {}: the format uses it", kMetadata));
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          header.empty() ? "" : ",", json_string(t->first, kStage), spelling(aval.dtype),
                          to_string(aval.shape), end, end + aval.bytes());
    end += aval.bytes();
  }
  header = "{" + header + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8

  std::string out;
  out.reserve(kLengthBytes + header.size() + end);
  append_bytes(out, std::uint64_t{header.size()});
  out += header;
  for (const auto* t : order) out += bytes_of(t->second);
  return out;
}

std::pair<Named<Tensor>, Named<std::string>> read_safetensors(std::string_view bytes,
                                                              const std::string& source) {
  return naming_file(kStage, source, [&] { return read_tensors(bytes); });
}

}  // namespace etrace
