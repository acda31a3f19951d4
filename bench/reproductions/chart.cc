#include "bench/reproductions/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "bench/reproductions/report.h"
#include "fmt/format.h"

namespace pagestorm::bench::reproductions {
namespace {

// Okabe and Ito's palette, which colour-blind readers can tell apart, without black and yellow,
// which vanish on one of the two backgrounds.
constexpr std::array<const char*, 6> kColours{"#d55e00", "#0072b2", "#009e73",
                                              "#cc79a7", "#e69f00", "#56b4e9"};
constexpr double kLeft = 70, kTop = 54, kPlotWidth = 520, kPlotHeight = 330, kBottom = 52;
constexpr double kLegendLine = 20, kLegendWidth = 330;

std::string EscapedXml(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

struct Point {
  double x = 0, value = 0;
  std::optional<stats::Interval> interval;
};

struct Series {
  std::string label;
  std::vector<Point> published, emulated;
  std::vector<double> lost;  // x of cells without any survivor
};

class Chart {
 public:
  explicit Chart(const Reproduction& reproduction)
      : reproduction_(reproduction),
        table_(reproduction.table),
        rates_(table_.draws_rates),
        factor_(Factor()) {
    for (std::size_t column = 0; column < table_.columns.size(); ++column) {
      if (table_.columns[column].drawn) AddSeries(column);
    }
    FindRange();
  }

  std::string Svg() {
    const double legend = kLegendLine * static_cast<double>(series_.size() + 2);
    const double height = std::max(kTop + kPlotHeight + kBottom, kTop + legend);
    const double width = kLeft + kPlotWidth + kLegendWidth;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n",
        width, height);
    absl::StrAppend(&svg_, "<title>", EscapedXml(table_.title), "</title>\n", kStyle);
    svg_ +=
        fmt::format("<rect class=\"page\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", width, height);
    Text(kLeft, 20, "head", "start", absl::StrCat(table_.id, ": ", ValueTitle()));
    Text(kLeft, 38, "ink", "start", Subtitle());
    Axes();
    for (std::size_t i = 0; i < series_.size(); ++i) Draw(series_[i], Colour(i));
    for (std::size_t i = 0; i < series_.size(); ++i) Legend(i);
    LegendKey();
    return svg_ + "</svg>\n";
  }

 private:
  static constexpr const char* kStyle =
      "<style>\n"
      ".page{fill:#fff}.ink{fill:#1f2328}.head{fill:#1f2328;font-size:14px;font-weight:bold}\n"
      ".axis{stroke:#57606a;fill:none}.grid{stroke:#d0d7de;fill:none}.key{stroke:#57606a;fill:none}"
      "\n"
      "@media (prefers-color-scheme: dark){.page{fill:#0d1117}.ink,.head{fill:#e6edf3}\n"
      ".axis,.key{stroke:#8b949e}.grid{stroke:#30363d}}\n"
      "</style>\n";

  static const char* Colour(std::size_t i) { return kColours[i % kColours.size()]; }

  [[nodiscard]] double Factor() const {
    const bool time = !rates_ && Metrics()[table_.metrics.front()].unit == "s";
    return time ? table_.length(reproduction_.length).time_factor : 1;
  }
  [[nodiscard]] std::string ValueTitle() const {
    if (rates_) return "runs that end in an OOM kill [%]";
    return MetricTitle(table_.metrics.front());
  }
  [[nodiscard]] std::string Subtitle() const {
    std::string text =
        absl::StrCat(LengthName(reproduction_.length), " length, ", reproduction_.seeds, " seeds");
    if (factor_ != 1) {
      absl::StrAppend(&text, fmt::format("; shortened: emulated times x {:g}", factor_));
    }
    return text;
  }
  // Rows that ascend are a scale of their own, a logarithmic one where each is at least twice the
  // one before; others are set side by side.
  [[nodiscard]] double XOf(std::size_t row) const {
    bool ascending = true;
    bool doubling = table_.rows.size() > 2 && table_.rows.front().value > 0;
    for (std::size_t i = 1; i < table_.rows.size(); ++i) {
      ascending = ascending && table_.rows[i - 1].value < table_.rows[i].value;
      doubling = doubling && 2 * table_.rows[i - 1].value <= table_.rows[i].value;
    }
    const auto value = static_cast<double>(table_.rows[row].value);
    if (doubling) return std::log2(value);
    return ascending ? value : static_cast<double>(row);
  }

  void AddSeries(std::size_t column) {
    Series series;
    series.label = table_.columns[column].label;
    const std::size_t metric = table_.metrics.front();
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      const Cell cell{column, row};
      const double x = XOf(row);
      if (const auto value = table_.Published(cell, metric); value && !rates_) {
        series.published.push_back({x, *value, std::nullopt});
      }
      if (!reproduction_.IsRun(cell)) continue;
      const CellSummary summary = SummaryOf(reproduction_.runs, cell, metric);
      if (rates_) {
        AddRate(series, x, summary.ooms);
      } else if (summary.mean) {
        Point point{x, *summary.mean * factor_, summary.interval};
        if (point.interval) {
          point.interval = {point.interval->low * factor_, point.interval->high * factor_};
        }
        series.emulated.push_back(point);
      } else if (summary.ooms.runs > 0) {
        series.lost.push_back(x);
      }
    }
    if (rates_) AddPublishedRates(series, column);
    series_.push_back(std::move(series));
  }
  static void AddRate(Series& series, double x, const OomCount& ooms) {
    if (ooms.runs == 0) return;
    const stats::Interval band = stats::WilsonInterval(ooms.kills, ooms.runs);
    series.emulated.push_back(
        {x, 100.0 * static_cast<double>(ooms.kills) / static_cast<double>(ooms.runs),
         stats::Interval{band.low * 100, band.high * 100}});
  }
  void AddPublishedRates(Series& series, std::size_t column) const {
    for (const Claim& claim : table_.claims) {
      if (claim.kind != ClaimKind::kOomCurve || claim.cells.empty()) continue;
      if (claim.cells.front().column == column) {
        series.published.push_back(
            {static_cast<double>(claim.at), *claim.published * 100, std::nullopt});
      }
    }
  }

  void FindRange() {
    x_low_ = XOf(0);
    x_high_ = x_low_;
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      x_low_ = std::min(x_low_, XOf(row));
      x_high_ = std::max(x_high_, XOf(row));
    }
    if (x_high_ <= x_low_) x_high_ = x_low_ + 1;
    if (rates_) {
      y_low_ = 0;
      y_high_ = 100;
      return;
    }
    double low = 0;
    double high = 0;
    const auto look = [&](double value) {
      if (value <= 0) return;
      low = low > 0 ? std::min(low, value) : value;
      high = std::max(high, value);
    };
    for (const Series& series : series_) {
      for (const Point& point : series.published) look(point.value);
      for (const Point& point : series.emulated) {
        look(point.value);
        if (point.interval) look(point.interval->low);
        if (point.interval) look(point.interval->high);
      }
    }
    if (low <= 0) low = high = 1;
    y_low_ = std::log10(low) - 0.05;
    y_high_ = std::max(std::log10(high), y_low_ + 0.5) + 0.05;
  }

  [[nodiscard]] double X(double x) const {
    return kLeft + 14 + (x - x_low_) / (x_high_ - x_low_) * (kPlotWidth - 28);
  }
  [[nodiscard]] double Y(double value) const {
    const double y = rates_ ? value : std::log10(std::max(value, 1e-9));
    const double share = std::clamp((y - y_low_) / (y_high_ - y_low_), 0.0, 1.0);
    return kTop + kPlotHeight - share * kPlotHeight;
  }

  void Text(double x, double y, const char* look, const char* anchor, const std::string& text) {
    svg_ +=
        fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                    look, x, y, anchor, EscapedXml(text));
  }
  void Line(double x1, double y1, double x2, double y2, const char* look) {
    svg_ += fmt::format(
        "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", look, x1,
        y1, x2, y2);
  }

  void Axes() {
    for (const double value : Ticks()) {
      Line(kLeft, Y(value), kLeft + kPlotWidth, Y(value), "grid");
      Text(kLeft - 6, Y(value) + 4, "ink", "end", fmt::format("{:g}", value));
    }
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      const double x = X(XOf(row));
      Line(x, kTop + kPlotHeight, x, kTop + kPlotHeight + 5, "axis");
      Text(x, kTop + kPlotHeight + 19, "ink", "middle", table_.rows[row].label);
    }
    Text(kLeft + kPlotWidth / 2, kTop + kPlotHeight + 40, "ink", "middle", table_.row_name);
    Line(kLeft, kTop + kPlotHeight, kLeft + kPlotWidth, kTop + kPlotHeight, "axis");
    Line(kLeft, kTop, kLeft, kTop + kPlotHeight, "axis");
  }
  // 1, 2 and 5 of each decade, or only its 1 where that is many.
  [[nodiscard]] std::vector<double> Ticks() const {
    if (rates_) return {0, 25, 50, 75, 100};
    std::vector<double> ticks;
    const bool many = y_high_ - y_low_ > 3;
    for (int decade = static_cast<int>(std::floor(y_low_)); decade <= y_high_; ++decade) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10.0, decade);
        const double y = std::log10(value);
        if (y >= y_low_ && y <= y_high_ && (!many || digit == 1.0)) ticks.push_back(value);
      }
    }
    return ticks;
  }

  void Draw(const Series& series, const char* colour) {
    Band(series.emulated, colour);
    Curve(series.published, colour, " stroke-dasharray=\"6 4\"");
    Curve(series.emulated, colour, "");
    for (const Point& point : series.published) {
      svg_ +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"none\" stroke=\"{}\"/>\n",
                      X(point.x), Y(point.value), colour);
    }
    for (const Point& point : series.emulated) {
      svg_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", X(point.x),
                          Y(point.value), colour);
    }
    for (const double x : series.lost) {
      svg_ += fmt::format(
          "<path d=\"M{0:.1f} {1:.1f}l8 8m0 -8l-8 8\" stroke=\"{2}\" stroke-width=\"2\" "
          "fill=\"none\"/>\n",
          X(x) - 4, kTop + 2, colour);
    }
  }
  void Curve(const std::vector<Point>& points, const char* colour, const char* dashes) {
    if (points.size() < 2) return;
    std::string path;
    for (const Point& point : points) {
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", X(point.x), Y(point.value));
    }
    svg_ +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
                    path, colour, dashes);
  }
  void Band(const std::vector<Point>& points, const char* colour) {
    std::string upper;
    std::string lower;
    for (const Point& point : points) {
      if (!point.interval) continue;
      upper += fmt::format("{:.1f},{:.1f} ", X(point.x), Y(point.interval->high));
      lower = fmt::format("{:.1f},{:.1f} ", X(point.x), Y(point.interval->low)) + lower;
    }
    if (upper.empty()) return;
    svg_ += fmt::format("<polygon points=\"{}{}\" fill=\"{}\" fill-opacity=\"0.2\"/>\n", upper,
                        lower, colour);
  }

  void Legend(std::size_t i) {
    const double x = kLeft + kPlotWidth + 16;
    const double y = kTop + 8 + kLegendLine * static_cast<double>(i);
    svg_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"3\"/>\n",
        x, y, x + 24, y, Colour(i));
    Text(x + 30, y + 4, "ink", "start", series_[i].label);
  }
  void LegendKey() {
    const double x = kLeft + kPlotWidth + 16;
    double y = kTop + 12 + kLegendLine * static_cast<double>(series_.size());
    svg_ += fmt::format(
        "<line class=\"key\" stroke-dasharray=\"6 4\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
        "y2=\"{:.1f}\"/>\n",
        x, y, x + 24, y);
    Text(x + 30, y + 4, "ink", "start", "published");
    y += kLegendLine;
    Line(x, y, x + 24, y, "key");
    Text(x + 30, y + 4, "ink", "start",
         rates_ ? "emulated; band: 95 %" : "emulated; band: 95 %; x: all killed");
  }

  const Reproduction& reproduction_;
  const Table& table_;
  const bool rates_;
  const double factor_;
  std::vector<Series> series_;
  double x_low_ = 0, x_high_ = 1, y_low_ = 0, y_high_ = 1;
  std::string svg_;
};

}  // namespace

std::string ReproductionSvg(const Reproduction& reproduction) { return Chart(reproduction).Svg(); }

}  // namespace pagestorm::bench::reproductions
