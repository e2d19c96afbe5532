// The matrix of round trips: over kvbed's own stores, and over the store under test.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tools/interrupt.h"
#include "tools/verify/campaigns.h"
#include "tools/verify/model_round_trips.h"
#include "tools/verify/own_stores.h"
#include "tools/verify/record_round_trips.h"
#include "tools/verify/store_under_test.h"

namespace kvbed {
namespace {

struct TripModel {
  std::string name;  // in names of cases
  std::string model;
};

std::vector<TripModel> TinyModels() {
  const auto toy = [](int kv_heads) {
    return fmt::format("toy:8m?vocab=101&hidden=128&layers=2&heads=8&kv_heads={}&mlp=128",
                       kv_heads);
  };
  return {{"tiny_gqa_8_2", toy(2)}, {"tiny_mqa", toy(1)}, {"tiny_mha", toy(8)}};
}

// Every third of the trips, another third for each turn.
std::vector<RecordTrip> Third(const std::vector<RecordTrip>& trips, size_t turn) {
  std::vector<RecordTrip> third;
  for (size_t at = turn % 3; at < trips.size(); at += 3) third.push_back(trips[at]);
  return third;
}

void Skip(CaseLog& log, std::string name, std::string reason) {
  CaseResult result = log.Start(std::move(name), CaseKind::kRoundtrip);
  result.status = CaseStatus::kSkip;
  result.reason = std::move(reason);
  log.Finish(std::move(result));
}

// The cells of one model's matrix: a trip without its place.
std::vector<ModelTrip> TripsOf(const TripModel& model) {
  std::vector<ModelTrip> trips;
  for (const RecordTrip& plan : RecordTrips(VerifyProfile::kCi)) {
    // The geometry is the model's; what varies with it is taken once.
    constexpr std::string_view kOne = "gqa_8_2/";
    if (!plan.name.starts_with(kOne)) continue;
    ModelTrip trip;
    trip.name = plan.name.substr(kOne.size());
    trip.model = model.model;
    trip.dtype = plan.geometry.dtype;
    trip.block_tokens = plan.geometry.block_tokens;
    trip.prompt_tokens = plan.prompt_tokens;
    trip.snapshot_tokens = plan.snapshot_tokens;
    trips.push_back(std::move(trip));
  }
  return trips;
}

// Where a model's trips go: a store, and in which process they are restored.
struct ModelPlace {
  std::string name;  // "slab/fresh"
  StoreSpec spec;
  StoreSettings settings;
  bool fresh_process = false;
  bool removes = false;
};

struct ModelMatrix {
  std::string prefix;  // "roundtrip/model"
  std::vector<TripModel> models;
  std::vector<ModelPlace> places;
  bool every_place = false;  // else each trip goes to one of them, by turns
  size_t stride = 1;         // every so manieth trip only
};

Status RunModelMatrix(const ModelMatrix& matrix, CaseLog& log) {
  size_t turn = 0;
  for (const TripModel& model : matrix.models) {
    const std::string prefix = fmt::format("{}/{}", matrix.prefix, model.name);
    const std::vector<ModelTrip> trips = TripsOf(model);
    for (size_t at = 0; at < trips.size(); at += matrix.stride, ++turn) {
      for (size_t i = 0; i < (matrix.every_place ? matrix.places.size() : 1); ++i) {
        const ModelPlace& place = matrix.places[(turn + i) % matrix.places.size()];
        ModelTrip trip = trips[at];
        trip.name = fmt::format("{}/{}/{}", prefix, place.name, trip.name);
        trip.spec = place.spec;
        trip.settings = place.settings;
        trip.fresh_process = place.fresh_process;
        trip.removes = place.removes;
        const Status status = RunModelTrip(trip, log);
        if (status.code() != StatusCode::kNotSupported) {
          KVBED_RETURN_IF_ERROR(status);
          continue;
        }
        Skip(log, prefix, fmt::format("logits and tokens were not compared: {}", status.message()));
        return Status::Ok();
      }
    }
  }
  return Status::Ok();
}

}  // namespace

Status RunRoundTrips(const CampaignOptions& options, CaseLog& log) {
  if (!log.WantsBelow("roundtrip/")) return Status::Ok();
  const std::vector<RecordTrip> trips = RecordTrips(options.profile);
  std::vector<OwnStore> usable;
  size_t turn = 0;
  for (const OwnStore& store : OwnStores()) {
    bool opens = true;
    for (const bool fresh : {false, true}) {
      if (fresh && store.kind == StoreKind::kMemory) continue;
      TripPlace place;
      place.prefix = fmt::format("roundtrip/records/{}", store.name);
      place.spec = SpecOf(store, fmt::format("{}/roundtrip-{}-{}", options.work_folder, store.name,
                                             fresh ? "fresh" : "same"));
      place.settings = SelfTestSettings();
      place.fresh_process = fresh;
      // In minutes one store sees all of the matrix, and the others a third each.
      const bool all = options.profile == VerifyProfile::kFull || turn == 0;
      const Status status = RunRecordTrips(place, all ? trips : Third(trips, turn), log);
      ++turn;
      if (status.code() == StatusCode::kNotSupported) {
        Skip(log, place.prefix, status.message());
        opens = false;
        break;
      }
      KVBED_RETURN_IF_ERROR(status);
    }
    if (opens) usable.push_back(store);
  }

  ModelMatrix matrix;
  matrix.prefix = "roundtrip/model";
  for (const OwnStore& store : usable) {
    for (const bool fresh : {false, true}) {
      if (fresh && store.kind == StoreKind::kMemory) continue;
      matrix.places.push_back(
          {fmt::format("{}/{}", store.name, fresh ? "fresh" : "same"),
           SpecOf(store, fmt::format("{}/model-{}", options.work_folder, store.name)),
           SelfTestSettings(), fresh, false});
    }
  }
  matrix.every_place = options.profile == VerifyProfile::kFull;
  matrix.models = TinyModels();
  KVBED_RETURN_IF_ERROR(RunModelMatrix(matrix, log));
  if (!options.model || options.store) return Status::Ok();
  matrix.models = {{"given", *options.model}};
  if (!matrix.every_place) matrix.stride = 5;
  return RunModelMatrix(matrix, log);
}

Status RunStoreRoundTrips(const CampaignOptions& given, CaseLog& log) {
  if (!log.WantsBelow("store/roundtrip/")) return Status::Ok();
  KVBED_ASSIGN_OR_RETURN(const StoreUnderTest under, LookAtStore(given));
  const CampaignOptions& options = under.options;
  const StoreSpec& spec = *options.store;
  TripPlace place;
  place.prefix = "store/roundtrip/records";
  place.spec = spec;
  place.settings = options.settings;
  place.removes = true;
  place.open = options.open;
  place.lossy = !under.skipped.empty();
  place.fail_above = options.fail_above;
  const std::vector<RecordTrip> trips = RecordTrips(options.profile);
  std::vector<bool> ways{false};
  if (KeepsFiles(spec.kind) && !place.lossy) ways.push_back(true);
  for (const bool fresh : ways) {
    place.fresh_process = fresh;
    KVBED_RETURN_IF_ERROR(RunRecordTrips(place, trips, log));
  }
  ModelMatrix matrix;
  matrix.prefix = "store/roundtrip/model";
  if (place.lossy) {
    if (log.Wants(matrix.prefix)) Skip(log, matrix.prefix, under.skipped);
    return Status::Ok();
  }
  for (const bool fresh : ways) {
    matrix.places.push_back({fresh ? "fresh" : "same", spec, options.settings, fresh, true});
  }
  matrix.every_place = options.profile == VerifyProfile::kFull;
  matrix.models = TinyModels();
  if (options.model) matrix.models.push_back({"given", *options.model});
  if (!matrix.every_place) matrix.stride = 3;
  return RunModelMatrix(matrix, log);
}

}  // namespace kvbed
