// kvbed verify-child: the second process of `kvbed verify`, of no use to anyone else.
#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/exit_code.h"
#include "tools/verify/verify_child.h"

namespace kvbed {

void AddVerifyChildCommand(CommandLine& line) {
  auto& store = line.Own<std::string>();
  OptionSet set = line.AddHiddenCommand("verify-child", "the second process of `kvbed verify`");
  set.Required(set.Text("--store", "SPEC", "the store to work on", store));
  line.SetFunction("verify-child", [&store]() -> Result<int> {
    KVBED_ASSIGN_OR_RETURN(const StoreSpec spec, ParseStoreSpec(store));
    return ServeVerifyJobs(spec, {}, OpenAsItIs);
  });
}

}  // namespace kvbed
