#include "bench/config/config_paths.h"

#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pagestorm::bench {
namespace {

namespace fs = std::filesystem;

void AddIfThere(ConfigRoots& roots, const fs::path& path) {
  std::error_code error;
  if (!path.empty() && fs::is_directory(path / "kernels", error)) roots.push_back(path.string());
}

// "kernels" -> "kernel", for messages.
std::string Singular(std::string_view folder) {
  return std::string(folder.substr(0, folder.size() - 1));
}

}  // namespace

ConfigRoots DefaultConfigRoots(const std::string& built_from) {
  ConfigRoots roots;
  if (const char* chosen = std::getenv("PAGESTORM_CONFIGS"); chosen != nullptr) {
    AddIfThere(roots, chosen);
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  fs::path above = error ? fs::path() : program.parent_path();
  AddIfThere(roots, above.parent_path() / "share" / "pagestorm" / "configs");
  for (int level = 0; level < 4 && !above.empty() && above != above.root_path(); ++level) {
    AddIfThere(roots, above / "configs");
    above = above.parent_path();
  }
  AddIfThere(roots, built_from);
  return roots;
}

absl::StatusOr<std::string> FindConfig(const ConfigRoots& roots, std::string_view folder,
                                       const std::string& name) {
  if (absl::StrContains(name, "/") || absl::EndsWith(name, ".toml")) return name;
  std::error_code error;
  for (const std::string& root : roots) {
    const fs::path path = fs::path(root) / folder / (name + ".toml");
    if (fs::is_regular_file(path, error)) return path.lexically_normal().string();
  }
  return absl::NotFoundError(
      absl::StrCat(Singular(folder), " = \"", name, "\": there is none of that name; allowed are ",
                   absl::StrJoin(KnownConfigs(roots, folder), ", "), " and paths of .toml files"));
}

std::vector<std::string> KnownConfigs(const ConfigRoots& roots, std::string_view folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const std::string& root : roots) {
    for (const auto& entry : fs::directory_iterator(fs::path(root) / folder, error)) {
      if (entry.path().extension() == ".toml") names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace pagestorm::bench
