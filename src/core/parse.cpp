// Reads the text that print.cpp writes. Recursive descent; whitespace and comments (# to the end of the line)
// are free.
//
//   program  := '{' 'lambda' (binder '=' '[' number,* ']')* ';' binder* '.' 'let' equation* 'in' '(' atom,*
//   ')' '}' binder   := name ':' type                  type := dtype '[' integer,* ']' equation := binder*
//   '=' name ('[' item,* ']')? atom* atom     := name | number ':' type         item := key '=' value value
//   := 'null' | number | "text" | '[' value,* ']' | '{' item,* '}' | program
//
// What is read may come from anywhere: nesting is limited, and memory grows with the length of the text only.
#include <cctype>
#include <limits>
#include <unordered_map>

#include "base/file.h"
#include "base/nearest.h"
#include "core/number_text.h"
#include "core/print.h"
#include "etrace/ir.h"
#include "etrace/primitive.h"

namespace etrace {

namespace {

constexpr int kMaxDepth = 200;  // programs, lists and dictionaries inside each other

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { advance(); }

  ClosedJaxpr whole() {
    ClosedJaxpr program = this->program();
    if (token_.kind != Kind::End) unexpected("the end of the text");
    return program;
  }

 private:
  enum class Kind : std::uint8_t { End, Word, Number, Text, Symbol };
  struct Token {
    Kind kind = Kind::End;
    std::string_view text;  // of Text: with its quotes
    std::size_t at = 0;
  };
  using Scope = std::unordered_map<std::string_view, Var>;

  struct Nesting {
    explicit Nesting(Parser& p) : depth(p.depth_) {
      if (++depth > kMaxDepth)
        p.fail(p.token_,
               "nested more than " + std::to_string(kMaxDepth) + " levels deep; no program needs that");
    }
    ~Nesting() { --depth; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    int& depth;
  };

  // Tokens
  // -----------------------------------------------------------------------------------------------------------
  static bool is_word_char(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  void skip_space() {
    while (next_ < text_.size()) {
      const char c = text_[next_];
      if (c == '#')
        next_ = std::min(text_.find('\n', next_), text_.size());
      else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        ++next_;
      else
        return;
    }
  }

  Token scan() {
    skip_space();
    const std::size_t start = next_;
    if (start == text_.size()) return {Kind::End, {}, start};
    auto take_while = [&](auto wanted) {
      while (next_ < text_.size() && wanted(text_[next_])) ++next_;
    };
    const char c = text_[start];
    Kind kind = Kind::Symbol;
    if (is_digit(c) || c == '-') {
      ++next_;
      // A sign after an exponent belongs to the number.
      take_while([&](char d) {
        return is_word_char(d) || d == '.' || ((d == '+' || d == '-') && text_[next_ - 1] == 'e');
      });
      kind = Kind::Number;
    } else if (is_word_char(c)) {
      take_while(is_word_char);
      kind = Kind::Word;
    } else if (c == '"') {
      for (++next_; next_ < text_.size() && text_[next_] != '"'; ++next_)
        if (text_[next_] == '\\') ++next_;
      if (next_ >= text_.size()) {
        next_ = text_.size();
        fail({kind, {}, start}, "the text in quotes does not end");
      }
      ++next_;
      kind = Kind::Text;
    } else {
      ++next_;
    }
    std::string_view found = text_.substr(start, next_ - start);
    if (found == "nan" && text_.substr(next_).starts_with("(0x")) {  // a NaN with its bits
      next_ = std::min(text_.find(')', next_), text_.size() - 1) + 1;
      found = text_.substr(start, next_ - start);
    }
    if (found == "true" || found == "false" || found == "inf" || found.starts_with("nan(") || found == "nan")
      kind = Kind::Number;
    return {kind, found, start};
  }

  void advance() { token_ = scan(); }

  [[noreturn]] void fail(const Token& token, const std::string& message) const {
    std::size_t line = 1, start = 0;
    for (std::size_t i = 0; i < token.at; ++i)
      if (text_[i] == '\n') {
        ++line;
        start = i + 1;
      }
    throw CompilationError("parse", "line " + std::to_string(line) + ":" +
                                        std::to_string(token.at - start + 1) + ": " + message);
  }

  [[noreturn]] void unexpected(const std::string& expected) const {
    constexpr std::size_t kShown = 40;
    const std::string found = token_.kind == Kind::End
                                  ? "the end of the text"
                                  : "'" + std::string(token_.text.substr(0, kShown)) + "'";
    fail(token_, "found " + found + ", expected " + expected);
  }

  bool peek(std::string_view text) const {
    return (token_.kind == Kind::Symbol || token_.kind == Kind::Word) && token_.text == text;
  }
  bool accept(std::string_view text) {
    if (!peek(text)) return false;
    advance();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) unexpected("'" + std::string(text) + "'");
  }
  Token take(Kind kind, const char* expected) {
    if (token_.kind != kind) unexpected(expected);
    const Token token = token_;
    advance();
    return token;
  }
  // item (',' item)* ','? up to `close`.
  template <class F>
  void list(std::string_view close, F item) {
    while (!accept(close)) {
      item();
      if (!peek(close)) expect(",");
    }
  }

  // Pieces
  // -----------------------------------------------------------------------------------------------------------
  bool at_name() const { return token_.kind == Kind::Word && !is_reserved_word(token_.text); }

  Token name(const char* expected) {
    if (!at_name()) unexpected(expected);
    return take(Kind::Word, expected);
  }

  std::int64_t integer() {
    const Token token = take(Kind::Number, "an integer");
    const auto value = read_scalar(token.text, Dtype::I64);
    if (!value) fail(token, "'" + std::string(token.text) + "' is no integer of 64 bits");
    return std::get<std::int64_t>(*value);
  }

  Aval type() {
    const Token token = take(Kind::Word, "a type such as f32[3,4]");
    const auto dtype = dtype_from_name(token.text);
    if (!dtype)
      fail(token, "'" + std::string(token.text) +
                      "' is no element type; known are bool i32 i64 u32 f16 bf16 f32 f64");
    expect("[");
    Dims dims;
    list("]", [&] { dims.push_back(integer()); });
    try {
      return {*dtype, Shape(dims)};
    } catch (const ValueError& e) {
      fail(token, e.message());
    }
  }

  Var binder(Scope& scope) {
    const Token token = name("the name of a variable");
    expect(":");
    const Var var = fresh_var(type());
    if (!scope.emplace(token.text, var).second)
      fail(token, "'" + std::string(token.text) + "' is defined twice");
    return var;
  }

  Atom atom(const Scope& scope) {
    if (token_.kind == Kind::Number) {
      const Token token = token_;
      advance();
      expect(":");
      const Aval aval = type();
      if (!aval.shape.is_scalar()) fail(token, "a literal is a scalar, found " + to_string(aval));
      const auto value = read_scalar(token.text, aval.dtype);
      if (!value) fail(token, "'" + std::string(token.text) + "' is no number of type " + to_string(aval));
      return Literal{aval.dtype, *value};
    }
    const Token token = name("a variable or a literal such as 1.0:f32[]");
    const auto it = scope.find(token.text);
    if (it == scope.end()) fail(token, "'" + std::string(token.text) + "' is not defined in this program");
    return it->second;
  }

  Tensor constant(const Aval& aval) {
    if (!peek("="))
      unexpected("'=' and the value of the constant; a text without values cannot be read back");
    advance();
    const Token start = token_;
    expect("[");
    const auto count = static_cast<std::size_t>(aval.shape.size());
    const std::size_t width = size_of(aval.dtype);
    std::vector<std::byte> data;  // grows with the text: the type alone must not make us allocate
    std::size_t n = 0;
    list("]", [&] {
      const Token token = take(Kind::Number, "a number");
      data.resize(data.size() + width);
      if (!read_number(token.text, aval.dtype, data.data() + n * width))
        fail(token,
             "'" + std::string(token.text) + "' is no number of type " + std::string(short_name(aval.dtype)));
      if (++n > count)
        fail(token, "more than the " + std::to_string(count) + " values of " + to_string(aval));
    });
    if (n != count)
      fail(start,
           std::to_string(n) + " values for " + to_string(aval) + ", expected " + std::to_string(count));
    return Tensor::copy_of(aval, data.data());
  }

  ClosedJaxpr program() {
    const Nesting nesting(*this);
    expect("{");
    return program_after_brace();
  }

  ClosedJaxpr program_after_brace() {
    expect("lambda");
    ClosedJaxpr closed;
    Jaxpr& jaxpr = closed.jaxpr;
    Scope scope;
    while (!accept(";")) {
      jaxpr.constvars.push_back(binder(scope));
      closed.consts.push_back(constant(jaxpr.constvars.back().aval));
    }
    while (!accept(".")) jaxpr.invars.push_back(binder(scope));
    expect("let");
    while (!accept("in")) jaxpr.eqns.push_back(equation(scope));
    expect("(");
    list(")", [&] { jaxpr.outs.push_back(atom(scope)); });
    expect("}");
    return closed;
  }

  Eqn equation(Scope& scope) {
    std::vector<Var> out;
    // Results come into scope behind their equation; until then the names wait here.
    Scope results;
    while (!accept("=")) {
      const Token token = token_;
      out.push_back(binder(results));
      if (scope.contains(token.text)) fail(token, "'" + std::string(token.text) + "' is defined twice");
    }
    const Token token = token_;
    const std::string prim_name = key("the name of a primitive");
    const Primitive* prim = find_primitive(prim_name);
    if (prim == nullptr)
      fail(token,
           "there is no primitive '" + prim_name + "'" + did_you_mean(prim_name, row_names(primitives())));
    Attr::Dict params;
    if (accept("[")) params = items("]");
    std::vector<Atom> in;
    // A name with a colon begins the next equation.
    while (token_.kind == Kind::Number || (at_name() && !followed_by_colon())) in.push_back(atom(scope));
    scope.merge(results);
    return make_eqn(*prim, std::move(in), std::move(out), Params(std::move(params)));
  }

  bool followed_by_colon() {
    const std::size_t saved = next_;
    skip_space();
    const bool colon = next_ < text_.size() && text_[next_] == ':';
    next_ = saved;
    return colon;
  }

  std::string key(const char* expected) {
    if (token_.kind == Kind::Text) return unquoted();
    return std::string(name(expected).text);
  }

  Attr::Dict items(std::string_view close) {
    Attr::Dict dict;
    const Token start = token_;
    list(close, [&] {
      std::string k = key("the name of a parameter");
      expect("=");
      dict.emplace_back(std::move(k), value());
    });
    try {
      return *Attr::dict(std::move(dict)).dict_items();
    } catch (const CompilationError& e) {
      fail(start, e.message());
    }
  }

  Attr value() {
    const Nesting nesting(*this);
    if (token_.kind == Kind::Text) return unquoted();
    if (token_.kind == Kind::Number) return number();
    if (accept("null")) return {};
    if (accept("[")) {
      Attr::List items_of;
      list("]", [&] { items_of.push_back(value()); });
      return Attr::list(std::move(items_of));
    }
    if (!accept("{")) unexpected("a value: null, a number, a text, a list, a dictionary or a program");
    if (peek("lambda")) return share(program_after_brace());
    return Attr::dict(items("}"));
  }

  Attr number() {
    const Token token = token_;
    advance();
    if (token.text == "true" || token.text == "false") return token.text == "true";
    const bool integral = token.text.find_first_not_of("-0123456789") == std::string_view::npos;
    const auto scalar = read_scalar(token.text, integral ? Dtype::I64 : Dtype::F64);
    if (!scalar) fail(token, "'" + std::string(token.text) + "' is no number, or does not fit into 64 bits");
    if (const double* d = std::get_if<double>(&*scalar)) return *d;
    return std::get<std::int64_t>(*scalar);
  }

  std::string unquoted() {
    const Token token = take(Kind::Text, "a text in quotes");
    const std::string_view body = token.text.substr(1, token.text.size() - 2);
    std::string out;
    for (std::size_t i = 0; i < body.size(); ++i) {
      if (body[i] != '\\') {
        out += body[i];
        continue;
      }
      const char c = body[++i];  // the scanner made sure that something follows
      unsigned char byte = 0;
      if (c == '"' || c == '\\')
        out += c;
      else if (c == 'n')
        out += '\n';
      else if (c == 't')
        out += '\t';
      else if (c == 'x' && hex_byte(body.substr(i + 1), byte))
        out += static_cast<char>(byte), i += 2;
      else
        fail(token, "unknown escape '\\" + std::string(1, c) +
                        "'; known are \\\" \\\\ \\n \\t and \\x with two digits");
    }
    return out;
  }

  static bool hex_byte(std::string_view digits, unsigned char& byte) {
    if (digits.size() < 2) return false;
    int value = 0;
    for (const char c : digits.substr(0, 2)) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
      value = value * 16 + (is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    byte = static_cast<unsigned char>(value);
    return true;
  }

  std::string_view text_;
  std::size_t next_ = 0;  // where the scanner goes on
  Token token_;           // the one to look at
  int depth_ = 0;
};

}  // namespace

ClosedJaxpr parse(std::string_view text) {
  ClosedJaxpr program = Parser(text).whole();
  check(program);
  return program;
}

ClosedJaxpr parse_file(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return parse(text);
  } catch (const CompilationError& e) {
    throw CompilationError(e.stage(), path + ": " + e.message(), e.origin());
  }
}

}  // namespace etrace
