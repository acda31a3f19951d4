#include "bench/config/value.h"

#include "bench/config/toml_file.h"
#include "tests/bench/bench_support.h"

namespace pagestorm::bench {
namespace {

TEST_CASE("Value: what is written as TOML reads back as the same value", "[bench][value]") {
  const std::string text =
      GENERATE("3", "-7", "true", "2.5", "1e+30", "\"a \\\"b\\\" \\\\ c\"", "\"line\\u000abreak\"",
               "[1, 2, 3]", "[[10, 21], [21, 10]]", "[]", "{ a = 1, b = \"x\" }",
               "[{ start = 1, kind = \"lost\" }]");
  const auto table = ParseToml("key = " + text, "test");
  REQUIRE(table.ok());
  const std::string written = ToToml(*table->Find("key"));
  const auto again = ParseToml("key = " + written, "test");
  REQUIRE(again.ok());
  CHECK(ToToml(*again->Find("key")) == written);
  CHECK(again->Find("key")->kind == table->Find("key")->kind);
}

TEST_CASE("Value: a real that is whole keeps its point", "[bench][value]") {
  CHECK(ToToml(Value::Real(1)) == "1.0");
  CHECK(ToToml(Value::Real(0.001)) == "0.001");
}

TEST_CASE("ParseScalar: a command line's text becomes what TOML would read", "[bench][value]") {
  CHECK(ParseScalar("8").integer == 8);
  CHECK(ParseScalar("-1").integer == -1);
  CHECK(ParseScalar("1_000").integer == 1000);
  CHECK(ParseScalar("0.5").kind == Value::Kind::kReal);
  CHECK(ParseScalar("true").boolean);
  CHECK(ParseScalar("\"3\"").kind == Value::Kind::kText);
  CHECK(ParseScalar("2.6.26").kind == Value::Kind::kText);
  CHECK(ParseScalar("wall(HZ/10)").text == "wall(HZ/10)");
  CHECK(ToToml(ParseScalar("[[10, 21],[21,10]]")) == "[[10, 21], [21, 10]]");
  CHECK(ParseScalar("[1, ").kind == Value::Kind::kText);
  CHECK(ToToml(ParseScalar("[{ a = 1, b = \"x, y\" }, { c = [2] }]")) ==
        "[{ a = 1, b = \"x, y\" }, { c = [2] }]");
  CHECK(ParseScalar("{ a = 1 }").members[0].value.line == 0);  // it is not from a file
  CHECK(ParseScalar("\"a\\tb\"").text == "a\tb");
  CHECK(ParseScalar("'as is'").text == "as is");
  CHECK(ToToml(ParseScalar("[normal, dma]")) == "[\"normal\", \"dma\"]");
  CHECK(ParseScalar("{ a = 1").kind == Value::Kind::kText);
  CHECK(ParseScalar("1\nseed = 2").kind == Value::Kind::kText);
}

TEST_CASE("ParseToml: a damaged file is one line with its name and line", "[bench][value]") {
  const auto table = ParseToml("a = 1\nb = = 2\n", "bad.toml");
  REQUIRE_FALSE(table.ok());
  const std::string message(table.status().message());
  CHECK(message.rfind("bad.toml:2: ", 0) == 0);
  CHECK(message.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace pagestorm::bench
