"""A store for kvbed in a program of its own: each record is a file of a folder, named by its id.
   kvbed verify --store "exec:python3 directory_store.py --dir /data/x"
"""
import json, mmap, os, pathlib, sys

FOLDER, window = sys.argv[sys.argv.index("--dir") + 1], None  # the memory that kvbed shares


def path(name):
    return os.path.join(FOLDER, name)


def sync_folder():
    folder = os.open(FOLDER, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def write(name, what):  # whole or not at all
    writing = path(f"writing-{os.getpid()}")
    with open(writing, "wb") as file:
        file.write(window[what["offset"] : what["offset"] + what["bytes"]])
        file.flush()
        os.fsync(file.fileno())
    os.replace(writing, path(name))
    return {"status": "ok"}


def read(name, what):
    with open(path(name), "rb") as file:
        data = file.read()
    part = data[: what["bytes"]]
    window[what["offset"] : what["offset"] + len(part)] = part
    return {"status": "ok", "bytes": len(data)}


def exists(id):
    return {"status": "ok" if os.path.exists(path(id + ".record")) else "not_found"}


def remove(id):
    pathlib.Path(path(id + ".record")).unlink(missing_ok=True)
    return {"status": "ok"}


def names(ending, after, most):
    found = sorted(n[: -len(ending)] for n in os.listdir(FOLDER) if n.endswith(ending))
    return [n for n in found if n > (after or "")][:most]


def hello(access, shared):
    global window
    if access == "create":
        os.makedirs(FOLDER, exist_ok=True)
    os.stat(FOLDER)
    with open(shared["path"], "r+b") as file:
        window = mmap.mmap(file.fileno(), shared["bytes"])
    return {"status": "ok", "version": 1, "name": "directory store in Python",
            "capabilities": ["flush", "exists", "remove", "list", "manifests"]}


def attempt(function, *what):
    try:
        return function(*what)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return {"status": "not_found" if missing else "io_error", "message": str(error)}


def serve(r):
    verb, manifest = r["verb"], r.get("name", "") + ".manifest"
    if verb == "hello":
        return hello(r["access"], r["window"])
    if verb in ("put", "get"):
        move = write if verb == "put" else read
        return {"results": [attempt(move, one["id"] + ".record", one) for one in r["records"]]}
    if verb in ("exists", "remove"):
        return {"results": [attempt(exists if verb == "exists" else remove, id) for id in r["ids"]]}
    if verb == "list":
        return {"status": "ok", "ids": names(".record", r["after"], r["most"])}
    if verb == "list_manifests":
        return {"status": "ok", "names": names(".manifest", r["after"], r["most"])}
    if verb == "read_manifest":
        return read(manifest, r)
    if verb == "commit_manifest":
        if os.path.exists(path(manifest)) and not r["replace"]:
            return {"status": "invalid_argument", "message": "the name is taken"}
        write(manifest, r)
    if verb == "remove_manifest":
        os.unlink(path(manifest))
    sync_folder()  # of these two, and of flush and close
    return {"status": "ok"}


for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps({"call": question["call"], **attempt(serve, question)}), flush=True)
    if question["verb"] == "close":
        break
