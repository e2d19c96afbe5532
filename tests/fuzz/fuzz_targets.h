// Every parser of what others wrote, as a function that takes any bytes and says whether the parser
// took them. What is accepted is used; a broken promise ends the process. The seeded tests and the
// libFuzzer programs call the same functions. They know neither GoogleTest nor libFuzzer.
#pragma once

#include "offload/bytes.h"

namespace kvbed {

using FuzzTarget = bool(Bytes input);

FuzzTarget FuzzByteSize;  // sizes, and the command's lists of numbers
FuzzTarget FuzzGguf;      // a GGUF file: config, tensors, tokenizer
FuzzTarget FuzzHfConfig;  // config.json, as a model's and as a shape's; generation_config.json
FuzzTarget FuzzLedger;    // the JSON file of a cached run
FuzzTarget FuzzManifest;  // also with the checksum mended
FuzzTarget FuzzProtocolAnswer;  // a line of an external store
FuzzTarget FuzzRecord;          // its header page and the whole, also with the checksum mended
FuzzTarget FuzzRecordPath;      // the path of a record's file below a store's folder
FuzzTarget FuzzReportRows;      // rows of results
FuzzTarget FuzzSafetensors;     // a safetensors file
FuzzTarget FuzzSnapshotName;    // a snapshot's name, and the file that it becomes
FuzzTarget FuzzStoreIdentity;   // the STORE page, also with the checksum mended
FuzzTarget FuzzStoreSpec;       // KIND:PATH?options#SNAPSHOT
FuzzTarget FuzzTokenizerJson;   // tokenizer.json, and a text through it
FuzzTarget FuzzToySpec;         // toy:8m?key=value

}  // namespace kvbed
