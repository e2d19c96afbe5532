/* The interface of a store plug-in, version 1: a shared library that keeps kvbed's records, in C or
 * C++. It stands alone: nothing else of kvbed is needed to build one. docs/store-plugin.md has a
 * whole one of a page; docs/store-protocol.md is the same interface for a program in any language.
 *
 *   cc -shared -fPIC -o libmystore.so mystore.c
 *   kvbed verify --store "plugin:./libmystore.so?path=/data/x"
 *
 * A record is some bytes under an id of 40 bytes. Both are opaque: keep the bytes as they are, and
 * compare ids whole. An id is put once; if it comes again it is with the same bytes (after a crash,
 * or after it was removed), and the last put counts.
 *
 * Process. kvbed loads the library in a process of its own, which it ends when a call takes longer
 * than the time-out (`timeout=` in the spec), so that nothing in a plug-in can harm a run. Standard
 * output is redirected to standard error, of which kvbed keeps the end for its messages.
 *
 * Threads. One thread makes all calls, one after the other. A plug-in may have threads of its own;
 * they must not touch what a call was given after it has returned.
 *
 * Memory. Whatever a call is given a pointer to belongs to kvbed and is valid until the call
 * returns: the records and their bytes, ids, names, keys and values, message buffers. Copy what is
 * needed longer. kvbed frees nothing of a plug-in's; the kvbed_store is freed by close, the
 * kvbed_store_plugin and its name live as long as the library. Bytes are aligned to 4096 and a
 * multiple of 4096 long, so that direct I/O can take them as they are; those of manifests are
 * aligned but have any length.
 *
 * Errors. Every function returns a status, and may write the reason as a string that ends in 0
 * into the message, which is empty before. The batches of put, get, exists and remove have a status
 * and a message for each record; what the function itself returns is for the batch: anything but
 * KVBED_STORE_OK fails every record in it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVBED_STORE_PLUGIN_VERSION 1
#define KVBED_STORE_ID_BYTES 40
#define KVBED_STORE_NAME_BYTES 129 /* a snapshot's name, its 0 included: A-Z a-z 0-9 . _ - */
#define KVBED_STORE_MESSAGE_BYTES 256

/* A number and no enum type, so that one that nobody knows is an error and nothing worse. */
typedef int32_t kvbed_store_status;
enum {
  KVBED_STORE_OK = 0,
  KVBED_STORE_NOT_FOUND = 1,
  KVBED_STORE_IO_ERROR = 2,
  KVBED_STORE_CORRUPTION = 3, /* the store itself has found its bytes damaged */
  KVBED_STORE_INVALID_ARGUMENT = 4,
  KVBED_STORE_OUT_OF_SPACE = 5,
  KVBED_STORE_NOT_SUPPORTED = 6
};

typedef struct kvbed_store kvbed_store; /* the plug-in's own */

typedef struct kvbed_store_record {
  uint8_t id[KVBED_STORE_ID_BYTES];
  void* data;     /* put: the bytes to keep, not to be written to; get: where they go; else NULL */
  uint64_t bytes; /* that data has; 0 for exists and remove */

  /* Set by the plug-in; before the call ok, 0 and empty. */
  kvbed_store_status status;
  uint64_t stored_bytes; /* get: the size of the record in the store, of which as many bytes were
                            written to data as there are, but never more than `bytes` */
  char message[KVBED_STORE_MESSAGE_BYTES];
} kvbed_store_record;

typedef enum kvbed_store_access {
  KVBED_STORE_READ = 0,  /* nothing will be put or removed */
  KVBED_STORE_WRITE = 1, /* the store must exist */
  KVBED_STORE_CREATE = 2 /* a missing store is made */
} kvbed_store_access;

/* What follows `?` in the spec, less kvbed's own keys: timeout, iodepth, window, manifests. */
typedef struct kvbed_store_option {
  const char* key;
  const char* value;
} kvbed_store_option;

typedef struct kvbed_store_open {
  kvbed_store_access access;
  const kvbed_store_option* options;
  size_t option_count;
} kvbed_store_open;

/* What a get gives isn't what was put, bit for bit: KV that is compressed with loss. It is then
 * measured (drift, with a limit of the user's) and not compared bit for bit. */
#define KVBED_STORE_LOSSY 1u

typedef struct kvbed_store_plugin {
  uint32_t version; /* KVBED_STORE_PLUGIN_VERSION */
  uint32_t flags;   /* KVBED_STORE_LOSSY or 0; unknown flags are refused */
  const char* name; /* for reports: "my store 1.2" */

  /* ---- required -------------------------------------------------------------------------- */

  /* The first call, once. An unknown option is best refused. */
  kvbed_store_status (*open)(const kvbed_store_open* how, kvbed_store** store, char* message);
  /* Every record is taken when this returns, or has failed: its bytes may be gone afterwards. They
   * must be seen by every later get, and be durable after the next flush, or at once in a store
   * without flush. Never only a part of a record. */
  kvbed_store_status (*put)(kvbed_store* store, kvbed_store_record* records, size_t count,
                            char* message);
  /* KVBED_STORE_NOT_FOUND for an id that isn't there. A record of another size than was asked for
   * is ok here, with its size in stored_bytes. */
  kvbed_store_status (*get)(kvbed_store* store, kvbed_store_record* records, size_t count,
                            char* message);
  /* The last call. Frees the store, also when it fails. Needn't make anything durable. */
  kvbed_store_status (*close)(kvbed_store* store, char* message);

  /* ---- capabilities: NULL for what a store can't ------------------------------------------- */

  /* Durable: every put and remove that returned before, also if the power fails now. Without it
   * every put counts as durable when it returns. After a failure kvbed takes all that was put since
   * the last success for lost. */
  kvbed_store_status (*flush)(kvbed_store* store, char* message);
  /* Each record's status: ok when the store has it, KVBED_STORE_NOT_FOUND when not. */
  kvbed_store_status (*exists)(kvbed_store* store, kvbed_store_record* records, size_t count,
                               char* message);
  /* An id that isn't there is ok. Without it records stay for ever. */
  kvbed_store_status (*remove)(kvbed_store* store, kvbed_store_record* records, size_t count,
                               char* message);
  /* The ids above `after` (all when it is NULL) in ascending order of their bytes, as memcmp has
   * it, `most` of them at most, one behind the other; none when there are no more. */
  kvbed_store_status (*list)(kvbed_store* store, const uint8_t* after, uint8_t* ids, size_t most,
                             size_t* count, char* message);

  /* Manifests, all four or none: a manifest is what makes a snapshot of records that were flushed.
   * Without them kvbed keeps the manifests itself, in memory, or in the folder `manifests=DIR`. */

  /* Publishes the manifest at once and durably: after a crash it is there whole, or not at all.
   * A name that exists is KVBED_STORE_INVALID_ARGUMENT unless `replace` isn't 0; then the old one
   * is there until the new one is. */
  kvbed_store_status (*commit_manifest)(kvbed_store* store, const char* name, const void* data,
                                        uint64_t bytes, int replace, char* message);
  /* *bytes is the manifest's size; when that is above `capacity`, what is in data doesn't matter,
   * but nothing is written past it. */
  kvbed_store_status (*read_manifest)(kvbed_store* store, const char* name, void* data,
                                      uint64_t capacity, uint64_t* bytes, char* message);
  /* As list: names above `after` in ascending order of their bytes; NULL for all. */
  kvbed_store_status (*list_manifests)(kvbed_store* store, const char* after,
                                       char (*names)[KVBED_STORE_NAME_BYTES], size_t most,
                                       size_t* count, char* message);
  /* Durable when it returns. KVBED_STORE_NOT_FOUND for a name that isn't there. */
  kvbed_store_status (*remove_manifest)(kvbed_store* store, const char* name, char* message);
} kvbed_store_plugin;

/* The one symbol that a plug-in exports. */
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
const kvbed_store_plugin*
kvbed_store_plugin_v1(void);

#ifdef __cplusplus
}
#endif
