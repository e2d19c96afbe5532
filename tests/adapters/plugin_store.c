/* A store plug-in for tests: a directory of files, right in all it does, or wrong in one way.
 *
 *   plugin:./libkvbed_test_plugin.so?path=DIR[&break=KIND]
 *
 * KIND is one of the words in `kinds`; tests/adapters/README.md says who finds which. Compiled with
 * KVBED_TEST_BARE it has only what is required, with KVBED_TEST_VERSION=N it is of that version,
 * with KVBED_TEST_LOSSY it says that it is lossy. */
#define _GNU_SOURCE
#include "backends/store_plugin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef KVBED_TEST_VERSION
#define KVBED_TEST_VERSION KVBED_STORE_PLUGIN_VERSION
#endif

enum {
  NAME_BYTES = 300,
  HEX = 2 * KVBED_STORE_ID_BYTES,
  KEY_HEX = HEX - 16 /* without the generation */
};

static const char* const kinds[] = {
    "crash_put",    "crash_get",   "crash_commit", "exit_put",       "hang_put",   "hang_get",
    "hang_open",    "short_record", "size_lie",    "bytes_lie",      "foreign",    "flip",
    "stale",        "drop_nth",    "flush_nothing", "lose_unflushed", "late_read", "change_put",
    "scribble",     "remove_nothing", "list_lacks", "list_invents",   "prints",    "bad_status",
    "endless_message", "close_fails", "close_crash", "short_ids",     "keep_first", "exists_lies"};

/* A put that hasn't reached its file: kept in memory, or only by where its bytes were. */
struct pending {
  struct pending* next;
  uint8_t id[KVBED_STORE_ID_BYTES];
  const void* data;
  uint64_t bytes;
};

struct kvbed_store {
  int folder;
  const char* kind;
  unsigned puts;
  struct pending* pending;
  uint8_t last_id[KVBED_STORE_ID_BYTES];
  int has_last;
};

static int is(const kvbed_store* store, const char* kind) { return strcmp(store->kind, kind) == 0; }

static kvbed_store_status fail(char* message, const char* what) {
  int error = errno;
  snprintf(message, KVBED_STORE_MESSAGE_BYTES, "%s: %s", what, strerror(error));
  if (error == ENOENT) return KVBED_STORE_NOT_FOUND;
  return error == ENOSPC || error == EDQUOT ? KVBED_STORE_OUT_OF_SPACE : KVBED_STORE_IO_ERROR;
}

static void record_name(const uint8_t* id, char* name) {
  for (int i = 0; i < KVBED_STORE_ID_BYTES; ++i) sprintf(name + 2 * i, "%02x", id[i]);
  strcpy(name + HEX, ".r");
}

static int has_ending(const char* name, const char* ending) {
  size_t length = strlen(name), tail = strlen(ending);
  return length > tail && strcmp(name + length - tail, ending) == 0;
}

/* 0, or -1 with errno. */
static int write_file(kvbed_store* store, const char* name, const void* data, uint64_t bytes) {
  char writing[32];
  snprintf(writing, sizeof(writing), "writing-%d", (int)getpid());
  int file = openat(store->folder, writing, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return -1;
  for (uint64_t done = 0; done < bytes;) {
    ssize_t n = write(file, (const char*)data + done, bytes - done);
    if (n < 0 && errno != EINTR) {
      close(file);
      return -1;
    }
    if (n > 0) done += (uint64_t)n;
  }
  int synced = fsync(file);
  close(file);
  return synced != 0 ? -1 : renameat(store->folder, writing, store->folder, name);
}

/* The size of the file, of which at most `capacity` bytes were read; -1 with errno. */
static int64_t read_file(kvbed_store* store, const char* name, void* data, uint64_t capacity) {
  struct stat about;
  int file = openat(store->folder, name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  int64_t size = fstat(file, &about) == 0 ? (int64_t)about.st_size : -1;
  for (uint64_t done = 0; size >= 0 && done < capacity;) {
    ssize_t n = read(file, (char*)data + done, capacity - done);
    if (n < 0 && errno != EINTR) size = -1;
    if (n == 0) break;
    if (n > 0) done += (uint64_t)n;
  }
  close(file);
  return size;
}

static struct pending* find_pending(kvbed_store* store, const uint8_t* id) {
  for (struct pending* one = store->pending; one != NULL; one = one->next) {
    if (memcmp(one->id, id, KVBED_STORE_ID_BYTES) == 0) return one;
  }
  return NULL;
}

static void keep_pending(kvbed_store* store, const kvbed_store_record* record, int copy) {
  struct pending* one = calloc(1, sizeof(*one));
  memcpy(one->id, record->id, sizeof(one->id));
  one->bytes = record->bytes;
  one->data = copy ? memcpy(malloc(record->bytes), record->data, record->bytes) : record->data;
  one->next = store->pending;
  store->pending = one;
}

static int write_pending(kvbed_store* store) {
  while (store->pending != NULL) {
    struct pending* one = store->pending;
    char name[NAME_BYTES];
    record_name(one->id, name);
    if (write_file(store, name, one->data, one->bytes) != 0) return -1;
    store->pending = one->next;
    free(one);
  }
  return 0;
}

static void begin(kvbed_store* store, const char* verb) {
  if (is(store, "late_read")) write_pending(store);
  if (strncmp(store->kind, "crash_", 6) == 0 && strcmp(store->kind + 6, verb) == 0) {
    fprintf(stderr, "last words of the test plug-in\n");
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an exit */
    raise(SIGSEGV);
  }
  if (strncmp(store->kind, "exit_", 5) == 0 && strcmp(store->kind + 5, verb) == 0) _exit(3);
  if (strncmp(store->kind, "hang_", 5) == 0 && strcmp(store->kind + 5, verb) == 0) pause();
  if (is(store, "prints")) {
    puts("{\"call\":1,\"status\":\"ok\"}");
    fflush(stdout);
  }
}

/* The first record of the same block, whatever its generation. */
static int find_block(kvbed_store* store, const char* name, char* first) {
  DIR* folder = fdopendir(openat(store->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  int found = 0;
  for (struct dirent* entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    if (strncmp(entry->d_name, name, KEY_HEX) != 0 || !has_ending(entry->d_name, ".r")) continue;
    if (found && strcmp(entry->d_name, first) >= 0) continue;
    snprintf(first, NAME_BYTES, "%s", entry->d_name);
    found = 1;
  }
  if (folder != NULL) closedir(folder);
  return found;
}

static kvbed_store_status store_open(const kvbed_store_open* how, kvbed_store** out,
                                     char* message) {
  kvbed_store* store = calloc(1, sizeof(*store));
  const char* path = NULL;
  store->kind = "";
  for (size_t i = 0; i < how->option_count; ++i) {
    if (strcmp(how->options[i].key, "path") == 0) {
      path = how->options[i].value;
    } else if (strcmp(how->options[i].key, "break") == 0) {
      for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); ++k) {
        if (strcmp(how->options[i].value, kinds[k]) == 0) store->kind = kinds[k];
      }
      if (*store->kind == 0) path = NULL;
    } else {
      path = NULL;
    }
    if (path == NULL && i > 0) break;
  }
  if (path == NULL) {
    snprintf(message, KVBED_STORE_MESSAGE_BYTES, "the options are path=DIR and break=KIND");
    free(store);
    return KVBED_STORE_INVALID_ARGUMENT;
  }
  begin(store, "open");
  if (how->access == KVBED_STORE_CREATE && mkdir(path, 0700) != 0 && errno != EEXIST) {
    free(store);
    return fail(message, path);
  }
  store->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (store->folder < 0) {
    free(store);
    return fail(message, path);
  }
  *out = store;
  return KVBED_STORE_OK;
}

/* The name of a record, less the end of its id where that isn't looked at. */
static void name_in(const kvbed_store* store, const uint8_t* id, char* name) {
  record_name(id, name);
  if (is(store, "short_ids")) memset(name + HEX - 14, '0', 14);
}

static kvbed_store_status put_one(kvbed_store* store, kvbed_store_record* record) {
  char name[NAME_BYTES], first[NAME_BYTES];
  name_in(store, record->id, name);
  if (is(store, "keep_first") && faccessat(store->folder, name, F_OK, 0) == 0) {
    return KVBED_STORE_OK;
  }
  ++store->puts;
  memcpy(store->last_id, record->id, sizeof(store->last_id));
  store->has_last = 1;
  if (is(store, "change_put")) *(char*)record->data ^= 1;
  if (is(store, "late_read")) {
    keep_pending(store, record, 0);
  } else if (is(store, "flush_nothing") || is(store, "lose_unflushed")) {
    keep_pending(store, record, 1);
  } else if (is(store, "drop_nth") && store->puts % 3 == 0) {
    return KVBED_STORE_OK;
  } else if (is(store, "stale") && find_block(store, name, first) && strcmp(name, first) != 0) {
    if (linkat(store->folder, first, store->folder, name, 0) == 0 || errno == EEXIST) {
      return KVBED_STORE_OK;
    }
    return fail(record->message, name);
  } else if (write_file(store, name, record->data, record->bytes) != 0) {
    return fail(record->message, name);
  }
  return is(store, "bad_status") ? (kvbed_store_status)99 : KVBED_STORE_OK;
}

static kvbed_store_status store_put(kvbed_store* store, kvbed_store_record* records, size_t count,
                                    char* message) {
  begin(store, "put");
  for (size_t i = 0; i < count; ++i) records[i].status = put_one(store, &records[i]);
  if (!is(store, "endless_message")) return KVBED_STORE_OK;
  memset(message, 'm', KVBED_STORE_MESSAGE_BYTES);
  return KVBED_STORE_IO_ERROR;
}

static void* scribble(void* at) {
  usleep(2000);
  memset(at, 'l', 64);
  return NULL;
}

static kvbed_store_status get_one(kvbed_store* store, kvbed_store_record* record) {
  char name[NAME_BYTES];
  struct pending* pending = find_pending(store, record->id);
  const int foreign = is(store, "foreign") && store->has_last;
  int64_t size = -1;
  name_in(store, foreign ? store->last_id : record->id, name);
  if (pending != NULL) {
    size = (int64_t)pending->bytes;
    memcpy(record->data, pending->data,
           pending->bytes < record->bytes ? pending->bytes : record->bytes);
  } else {
    const uint64_t wanted = is(store, "size_lie") ? record->bytes / 2 : record->bytes;
    size = read_file(store, name, record->data, wanted);
  }
  if (size < 0) return fail(record->message, name);
  record->stored_bytes = (uint64_t)size;
  if (is(store, "flip")) ((char*)record->data)[record->bytes / 2] ^= 4;
  if (is(store, "short_record")) record->stored_bytes /= 2;
  if (is(store, "bytes_lie")) record->stored_bytes += 4096;
  if (is(store, "scribble")) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, scribble, record->data) == 0) pthread_detach(thread);
  }
  return KVBED_STORE_OK;
}

static kvbed_store_status store_get(kvbed_store* store, kvbed_store_record* records, size_t count,
                                    char* message) {
  (void)message;
  begin(store, "get");
  for (size_t i = 0; i < count; ++i) records[i].status = get_one(store, &records[i]);
  return KVBED_STORE_OK;
}

static kvbed_store_status store_close(kvbed_store* store, char* message) {
  begin(store, "close");
  if (is(store, "close_crash")) abort();
  if (is(store, "close_fails")) {
    errno = EIO;
    return fail(message, "close");
  }
  close(store->folder);
  free(store);
  return KVBED_STORE_OK;
}

#ifndef KVBED_TEST_BARE

static kvbed_store_status store_flush(kvbed_store* store, char* message) {
  begin(store, "flush");
  if (is(store, "lose_unflushed") && write_pending(store) != 0) return fail(message, "write");
  return fsync(store->folder) == 0 ? KVBED_STORE_OK : fail(message, "sync the folder");
}

static kvbed_store_status store_exists(kvbed_store* store, kvbed_store_record* records,
                                       size_t count, char* message) {
  (void)message;
  begin(store, "exists");
  for (size_t i = 0; i < count; ++i) {
    char name[NAME_BYTES];
    record_name(records[i].id, name);
    if (find_pending(store, records[i].id) != NULL || is(store, "exists_lies")) continue;
    if (faccessat(store->folder, name, F_OK, 0) != 0) records[i].status = KVBED_STORE_NOT_FOUND;
  }
  return KVBED_STORE_OK;
}

static kvbed_store_status store_remove(kvbed_store* store, kvbed_store_record* records,
                                       size_t count, char* message) {
  (void)message;
  begin(store, "remove");
  for (size_t i = 0; i < count && !is(store, "remove_nothing"); ++i) {
    char name[NAME_BYTES];
    struct pending* pending = find_pending(store, records[i].id);
    if (pending != NULL) memset(pending->id, 0xff, sizeof(pending->id));
    record_name(records[i].id, name);
    if (unlinkat(store->folder, name, 0) != 0 && errno != ENOENT) {
      records[i].status = fail(records[i].message, name);
    }
  }
  return KVBED_STORE_OK;
}

struct names {
  char (*names)[NAME_BYTES];
  size_t count;
};

static int by_bytes(const void* a, const void* b) { return strcmp(a, b); }

/* The files with this ending, without it, in order; names is to be freed. */
static struct names list_files(kvbed_store* store, const char* ending) {
  struct names all = {NULL, 0};
  DIR* folder = fdopendir(openat(store->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (struct dirent* entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    if (!has_ending(entry->d_name, ending)) continue;
    all.names = realloc(all.names, (all.count + 1) * NAME_BYTES);
    snprintf(all.names[all.count], NAME_BYTES, "%.*s",
             (int)(strlen(entry->d_name) - strlen(ending)), entry->d_name);
    ++all.count;
  }
  if (folder != NULL) closedir(folder);
  if (all.count > 0) qsort(all.names, all.count, NAME_BYTES, by_bytes);
  return all;
}

static kvbed_store_status store_list(kvbed_store* store, const uint8_t* after, uint8_t* ids,
                                     size_t most, size_t* count, char* message) {
  (void)message;
  begin(store, "list");
  struct names all = list_files(store, ".r");
  *count = 0;
  for (size_t i = is(store, "list_lacks"); i < all.count && *count < most; ++i) {
    uint8_t* id = ids + *count * KVBED_STORE_ID_BYTES;
    for (int b = 0; b < KVBED_STORE_ID_BYTES; ++b) {
      unsigned value = 0;
      sscanf(all.names[i] + 2 * b, "%2x", &value);
      id[b] = (uint8_t)value;
    }
    if (after == NULL || memcmp(id, after, KVBED_STORE_ID_BYTES) > 0) ++*count;
  }
  if (is(store, "list_invents") && *count < most && (after == NULL || after[0] != 0xff)) {
    memset(ids + (*count)++ * KVBED_STORE_ID_BYTES, 0xff, KVBED_STORE_ID_BYTES);
  }
  free(all.names);
  return KVBED_STORE_OK;
}

static void manifest_file(const char* name, char* file) {
  snprintf(file, NAME_BYTES, "%s.m", name);
}

static kvbed_store_status store_commit(kvbed_store* store, const char* name, const void* data,
                                       uint64_t bytes, int replace, char* message) {
  char file[NAME_BYTES];
  begin(store, "commit");
  manifest_file(name, file);
  if (!replace && faccessat(store->folder, file, F_OK, 0) == 0) return KVBED_STORE_INVALID_ARGUMENT;
  if (write_file(store, file, data, bytes) != 0) return fail(message, file);
  return fsync(store->folder) == 0 ? KVBED_STORE_OK : fail(message, "sync the folder");
}

static kvbed_store_status store_read_manifest(kvbed_store* store, const char* name, void* data,
                                              uint64_t capacity, uint64_t* bytes, char* message) {
  char file[NAME_BYTES];
  begin(store, "read");
  manifest_file(name, file);
  const int64_t size = read_file(store, file, data, capacity);
  if (size < 0) return fail(message, file);
  *bytes = (uint64_t)size;
  return KVBED_STORE_OK;
}

static kvbed_store_status store_list_manifests(kvbed_store* store, const char* after,
                                               char (*names)[KVBED_STORE_NAME_BYTES], size_t most,
                                               size_t* count, char* message) {
  (void)message;
  begin(store, "list_manifests");
  struct names all = list_files(store, ".m");
  *count = 0;
  for (size_t i = 0; i < all.count && *count < most; ++i) {
    if (after != NULL && strcmp(all.names[i], after) <= 0) continue;
    snprintf(names[(*count)++], KVBED_STORE_NAME_BYTES, "%.*s", KVBED_STORE_NAME_BYTES - 1,
             all.names[i]);
  }
  free(all.names);
  return KVBED_STORE_OK;
}

static kvbed_store_status store_remove_manifest(kvbed_store* store, const char* name,
                                                char* message) {
  char file[NAME_BYTES];
  begin(store, "remove_manifest");
  manifest_file(name, file);
  if (unlinkat(store->folder, file, 0) != 0) return fail(message, file);
  return fsync(store->folder) == 0 ? KVBED_STORE_OK : fail(message, "sync the folder");
}

#endif

const kvbed_store_plugin* kvbed_store_plugin_v1(void) {
  static const kvbed_store_plugin plugin = {
      .version = KVBED_TEST_VERSION,
#ifdef KVBED_TEST_LOSSY
      .flags = KVBED_STORE_LOSSY,
#endif
      .name = "test plug-in",
      .open = store_open,
      .put = store_put,
      .get = store_get,
      .close = store_close,
#ifndef KVBED_TEST_BARE
      .flush = store_flush,
      .exists = store_exists,
      .remove = store_remove,
      .list = store_list,
      .commit_manifest = store_commit,
      .read_manifest = store_read_manifest,
      .list_manifests = store_list_manifests,
      .remove_manifest = store_remove_manifest,
#endif
  };
  return &plugin;
}
