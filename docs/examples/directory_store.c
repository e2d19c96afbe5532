/* A store plug-in that keeps each record in a file of a folder, named by its id.
 *   cc -O2 -shared -fPIC -I PREFIX/include -o libdirectory_store.so directory_store.c
 *   kvbed verify --store "plugin:./libdirectory_store.so?path=/data/x&manifests=/data/m" */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <kvbed/store_plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct kvbed_store {
  int folder;
};

static kvbed_store_status fail(char* message, const char* what) {
  int error = errno;
  snprintf(message, KVBED_STORE_MESSAGE_BYTES, "%s: %s", what, strerror(error));
  if (error == ENOENT) return KVBED_STORE_NOT_FOUND;
  return error == ENOSPC || error == EDQUOT ? KVBED_STORE_OUT_OF_SPACE : KVBED_STORE_IO_ERROR;
}

static kvbed_store_status store_open(const kvbed_store_open* how, kvbed_store** store,
                                     char* message) {
  const char* path = NULL;
  for (size_t i = 0; i < how->option_count; ++i)
    if (strcmp(how->options[i].key, "path") == 0) path = how->options[i].value;
  if (path == NULL) return KVBED_STORE_INVALID_ARGUMENT;
  if (how->access == KVBED_STORE_CREATE && mkdir(path, 0700) != 0 && errno != EEXIST) {
    return fail(message, path);
  }
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return fail(message, path);
  *store = malloc(sizeof(**store));
  (*store)->folder = folder;
  return KVBED_STORE_OK;
}

static void name_of(const uint8_t* id, char* name) {
  for (int i = 0; i < KVBED_STORE_ID_BYTES; ++i) sprintf(name + 2 * i, "%02x", id[i]);
}

static kvbed_store_status store_put(kvbed_store* store, kvbed_store_record* records, size_t count,
                                    char* message) {
  (void)message;
  for (size_t i = 0; i < count; ++i) {
    char name[2 * KVBED_STORE_ID_BYTES + 1], writing[32];
    name_of(records[i].id, name);
    sprintf(writing, "writing-%d", (int)getpid());
    int file = openat(store->folder, writing, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int failed = file < 0 ||
                 write(file, records[i].data, records[i].bytes) != (ssize_t)records[i].bytes ||
                 renameat(store->folder, writing, store->folder, name) != 0;
    if (failed) records[i].status = fail(records[i].message, name);
    if (file >= 0) close(file);
  }
  return KVBED_STORE_OK;
}

static kvbed_store_status store_get(kvbed_store* store, kvbed_store_record* records, size_t count,
                                    char* message) {
  (void)message;
  for (size_t i = 0; i < count; ++i) {
    char name[2 * KVBED_STORE_ID_BYTES + 1];
    struct stat about;
    name_of(records[i].id, name);
    int file = openat(store->folder, name, O_RDONLY | O_CLOEXEC);
    int failed = file < 0 || fstat(file, &about) != 0 ||
                 read(file, records[i].data, records[i].bytes) < 0;
    if (failed) records[i].status = fail(records[i].message, name);
    if (!failed) records[i].stored_bytes = (uint64_t)about.st_size;
    if (file >= 0) close(file);
  }
  return KVBED_STORE_OK;
}

static kvbed_store_status store_flush(kvbed_store* store, char* message) {
  return syncfs(store->folder) == 0 ? KVBED_STORE_OK : fail(message, "syncfs");
}

static kvbed_store_status store_close(kvbed_store* store, char* message) {
  (void)message;
  close(store->folder);
  free(store);
  return KVBED_STORE_OK;
}

const kvbed_store_plugin* kvbed_store_plugin_v1(void) {
  static const kvbed_store_plugin plugin = {.version = KVBED_STORE_PLUGIN_VERSION,
                                            .name = "directory store",
                                            .open = store_open,
                                            .put = store_put,
                                            .get = store_get,
                                            .close = store_close,
                                            .flush = store_flush};
  return &plugin;
}
