// Programs as text. One program has one text: Vars are named a, b, c … in order of appearance, parameters
// come sorted.
//
//   { lambda a:f64[]=[2.5] ; b:f32[3] c:f32[3,4]. let
//       d:f32[4] = dot_general[dimension_numbers=[[[0],[0]],[[],[]]]] b c
//     in (d,) }
//
// Start with Printer::program. parse.cpp reads this back.
#include "core/print.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_map>

#include "core/number_text.h"
#include "etrace/primitive.h"

namespace etrace {

namespace {

bool is_word(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0 || is_reserved_word(text))
    return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; });
}

std::string key_text(std::string_view key) { return is_word(key) ? std::string(key) : quoted(key); }

bool holds_program(const Attr& a) {
  if (a.jaxpr() != nullptr) return true;
  if (const Attr::List* l = a.list_items()) return std::any_of(l->begin(), l->end(), holds_program);
  if (const Attr::Dict* d = a.dict_items())
    return std::any_of(d->begin(), d->end(), [](const auto& item) { return holds_program(item.second); });
  return false;
}

enum class Constants : bool { Leave, Show };

class Printer {
 public:
  explicit Printer(Constants constants) : constants_(constants) {}

  void program(const Jaxpr& jaxpr, const Tensors* consts, std::size_t indent) {
    Names outer = std::move(names_);
    names_.clear();
    out_ += "{ lambda";
    for (std::size_t i = 0; i < jaxpr.constvars.size(); ++i) {
      out_ += ' ';
      binder(jaxpr.constvars[i]);
      if (constants_ == Constants::Show && consts != nullptr && i < consts->size()) constant((*consts)[i]);
    }
    out_ += " ;";
    for (const Var& v : jaxpr.invars) {
      out_ += ' ';
      binder(v);
    }
    out_ += ". let";
    for (const Eqn& eqn : jaxpr.eqns) {
      new_line(indent + 4);
      equation(eqn, indent + 4);
    }
    if (jaxpr.eqns.empty())
      out_ += ' ';
    else
      new_line(indent + 2);
    out_ += "in (";
    for (std::size_t i = 0; i < jaxpr.outs.size(); ++i) {
      if (i != 0) out_ += ' ';
      atom(jaxpr.outs[i]);
      if (i + 1 < jaxpr.outs.size() || i == 0) out_ += ',';
    }
    out_ += ") }";
    names_ = std::move(outer);
  }

  // Names the inputs of a program whose equations are then printed one by one.
  void enter(const Jaxpr& jaxpr) {
    for (const auto* vars : {&jaxpr.constvars, &jaxpr.invars})
      for (const Var& v : *vars) name_of(v);
  }

  void equation(const Eqn& eqn, std::size_t indent) {
    for (std::size_t i = 0; i < eqn.out.size(); ++i) {
      if (i != 0) out_ += ' ';
      binder(eqn.out[i]);
    }
    out_ += eqn.out.empty() ? "= " : " = ";
    out_ += eqn.prim == nullptr ? "?" : key_text(eqn.prim->name());
    if (!eqn.params.empty()) items(eqn.params.items(), '[', ']', indent);
    for (const Atom& a : eqn.in) {
      out_ += ' ';
      atom(a);
    }
  }

  void attribute(const Attr& attr, std::size_t indent) {
    if (const auto* b = attr.get_if<bool>()) {
      out_ += *b ? "true" : "false";
    } else if (const auto* i = attr.get_if<std::int64_t>()) {
      out_ += std::to_string(*i);
    } else if (const auto* d = attr.get_if<double>()) {
      out_ += number_text(Literal{Dtype::F64, *d});
    } else if (const auto* s = attr.get_if<std::string>()) {
      out_ += quoted(*s);
    } else if (const Dims* dims = attr.ints()) {
      integers(*dims);
    } else if (const auto* table = attr.table()) {
      integers(**table);
    } else if (const Attr::List* l = attr.list_items()) {
      sequence(*l, '[', ",", ']', holds_program(attr), indent,
               [&](const Attr& item, std::size_t at) { attribute(item, at); });
    } else if (const Attr::Dict* items_of = attr.dict_items()) {
      items(*items_of, '{', '}', indent);
    } else if (const JaxprPtr* j = attr.jaxpr(); j != nullptr && *j != nullptr) {
      nested(**j, indent);
    } else {
      out_ += "null";
    }
  }

  void elide_nested() { elide_ = true; }
  std::string take() { return std::exchange(out_, {}); }

 private:
  using Names = std::unordered_map<std::uint64_t, std::string>;

  void nested(const ClosedJaxpr& closed, std::size_t indent) {
    const std::size_t start = out_.size();
    program(closed.jaxpr, &closed.consts, indent);
    if (!elide_) return;
    out_.resize(start);  // printed all the same, so that later names do not depend on it
    out_ += "{ … }";
  }

  void items(const Attr::Dict& dict, char open, char close, std::size_t indent) {
    const bool lines =
        std::any_of(dict.begin(), dict.end(), [](const auto& item) { return holds_program(item.second); });
    sequence(dict, open, ", ", close, lines, indent, [&](const auto& item, std::size_t at) {
      out_ += key_text(item.first) + "=";
      attribute(item.second, at);
    });
  }

  template <class List>
  void integers(const List& list) {
    out_ += '[';
    for (std::size_t k = 0; k < list.size(); ++k) out_ += (k != 0 ? "," : "") + std::to_string(list[k]);
    out_ += ']';
  }

  template <class List, class F>
  void sequence(const List& list, char open, std::string_view separator, char close, bool lines,
                std::size_t indent, F print_item) {
    lines = lines && !elide_;
    out_ += open;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i != 0) out_ += lines ? "," : separator;
      if (lines) new_line(indent + 2);
      print_item(list[i], indent + 2);
    }
    if (lines) new_line(indent);
    out_ += close;
  }

  void constant(const Tensor& value) {
    out_ += "=[";
    const std::size_t width = size_of(value.dtype());
    for (std::int64_t i = 0; i < value.size(); ++i) {
      if (i != 0) out_ += ',';
      append_number(out_, value.dtype(), value.bytes() + static_cast<std::size_t>(i) * width);
    }
    out_ += ']';
  }

  void binder(const Var& v) { out_ += name_of(v) + ":" + to_string(v.aval); }

  void atom(const Atom& a) {
    if (const Var* v = as_var(a)) {
      out_ += name_of(*v);
    } else {
      const auto& literal = std::get<Literal>(a);
      out_ += number_text(literal) + ":" + to_string(literal.aval());
    }
  }

  // a … z, aa, ab …: bijective base 26, over the whole text.
  std::string next_name() {
    std::string text;
    do {
      text.clear();
      for (std::size_t n = ++count_; n != 0; n = (n - 1) / 26)
        text.insert(text.begin(), static_cast<char>('a' + (n - 1) % 26));
    } while (is_reserved_word(text));
    return text;
  }

  const std::string& name_of(const Var& v) {
    auto [it, is_new] = names_.try_emplace(v.id);
    if (is_new) it->second = next_name();
    return it->second;
  }

  void new_line(std::size_t indent) { out_ += '\n' + std::string(indent, ' '); }

  Constants constants_;
  bool elide_ = false;
  std::string out_;
  Names names_;  // of the program that is being printed
  std::size_t count_ = 0;
};

}  // namespace

bool is_reserved_word(std::string_view text) {
  static constexpr std::array<std::string_view, 8> kWords{"lambda", "let",  "in",  "true",
                                                          "false",  "null", "nan", "inf"};
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

std::string quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    else
      out += c;
  }
  return out + "\"";
}

std::string excerpt(const Jaxpr& jaxpr, std::size_t at, std::size_t margin) {
  Printer printer(Constants::Leave);
  printer.elide_nested();
  printer.enter(jaxpr);
  std::string out;
  for (std::size_t i = 0; i < jaxpr.eqns.size() && i <= at + margin; ++i) {
    printer.equation(jaxpr.eqns[i], 0);
    const std::string line = printer.take();
    if (i + margin >= at) out += (i == at ? "\n  --> " : "\n      ") + line;
  }
  return out;
}

std::string to_string(const Jaxpr& jaxpr) {
  Printer printer(Constants::Leave);
  printer.program(jaxpr, nullptr, 0);
  return printer.take();
}

std::string to_string(const ClosedJaxpr& closed) {
  Printer printer(Constants::Show);
  printer.program(closed.jaxpr, &closed.consts, 0);
  return printer.take();
}

std::string to_string(const Attr& attr) {
  Printer printer(Constants::Show);
  printer.attribute(attr, 0);
  return printer.take();
}

}  // namespace etrace
