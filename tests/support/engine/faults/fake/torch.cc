// Compiled once for each C++ ABI, so that an extension of either can be loaded.
#include <string>
namespace c10 { int check(const std::string &text) { return text.size(); } }
