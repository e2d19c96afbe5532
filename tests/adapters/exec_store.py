"""An exec: store for tests: a directory of files, right in all it does, or wrong in one way.

   exec_store.py --dir DIR [--break KIND] [--without CAPABILITY,...] [--lossy]

The ways to be wrong are in BREAKS; tests/adapters/README.md says who finds which.
"""
import argparse, json, mmap, os, signal, sys, threading, time

BREAKS = """crash_put crash_get crash_commit exit_put hang_put hang_get hang_hello slow_reader
close_output short_answer extra_answer short_record size_lie bytes_lie foreign flip stale forget flush_nothing
lose_unflushed drop_nth garbage garbage_first not_json no_call long_line duplicate wrong_version
remove_nothing list_lacks list_invents list_disorder scribble change_put late_read bad_status
flood_errors refuse_hello unknown_capability manifest_lies""".split()

arguments = argparse.ArgumentParser()
arguments.add_argument("--dir", required=True)
arguments.add_argument("--break", dest="kind", choices=BREAKS)
arguments.add_argument("--without", default="")
arguments.add_argument("--lossy", action="store_true")
options = arguments.parse_args()
kind = options.kind
window = None
pending = {}  # put and not flushed, where that is how it is broken
late = []  # puts whose bytes are taken at the next call
counted = {"put": 0}
last_id = None  # of the last record that was put


def path(name):
    return os.path.join(options.dir, name)


def sync_folder():
    folder = os.open(options.dir, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def write_file(name, data):
    temporary = path("tmp." + name)
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path(name))


def read_file(name):
    if name in pending:
        return pending[name]
    with open(path(name), "rb") as file:
        return file.read()


def shared(place):
    return window[place["offset"] : place["offset"] + place["bytes"]]


def share(place, data):
    part = data[: place["bytes"]]
    window[place["offset"] : place["offset"] + len(part)] = part


def records_of_block(id):
    """The records of the same block, whatever their generation: the last 8 bytes of an id."""
    return sorted(n for n in os.listdir(options.dir) if n.startswith(id[:64]) and n.endswith(".r"))


def put(one):
    global last_id
    name = one["id"] + ".r"
    counted["put"] += 1
    if kind == "late_read":
        late.append((name, one))
    elif kind in ("flush_nothing", "lose_unflushed"):
        pending[name] = shared(one)
    elif kind == "drop_nth" and counted["put"] % 3 == 0:
        pass
    elif kind == "stale" and records_of_block(one["id"]):
        write_file(name, read_file(records_of_block(one["id"])[0]))
    else:
        write_file(name, shared(one))
    if kind == "change_put":
        window[one["offset"]] ^= 1
    last_id = one["id"]
    return {"status": "ok"}


def get(one):
    name = one["id"] + ".r"
    if kind == "foreign" and last_id not in (None, one["id"]):
        name = last_id + ".r"
    data = read_file(name)
    if kind == "flip":
        data = bytearray(data)
        data[len(data) // 2] ^= 4
    if kind == "short_record":
        data = data[: len(data) // 2]
    if kind == "size_lie":
        share(one, data[: len(data) // 2])
        return {"status": "ok", "bytes": len(data)}
    share(one, data)
    if kind == "scribble":
        threading.Timer(0.002, share, (one, b"late" * 16)).start()
    return {"status": "ok", "bytes": len(data) + (4096 if kind == "bytes_lie" else 0)}


def exists(id):
    name = id + ".r"
    return {"status": "ok" if name in pending or os.path.exists(path(name)) else "not_found"}


def remove(id):
    pending.pop(id + ".r", None)
    if kind != "remove_nothing" and os.path.exists(path(id + ".r")):
        os.unlink(path(id + ".r"))
    return {"status": "ok"}


def names(ending, request):
    stored = {n for n in os.listdir(options.dir) if n.endswith(ending)} | {
        n for n in pending if n.endswith(ending)}
    found = sorted(n[: -len(ending)] for n in stored)
    if kind == "list_lacks":
        found = found[1:]
    if kind == "list_invents" and ending == ".r":
        found = sorted(found + ["ab" * 40])
    found = [n for n in found if n > (request["after"] or "")][: request["most"]]
    return found[::-1] if kind == "list_disorder" else found


def attempt(function, *what):
    try:
        return function(*what)
    except FileNotFoundError as error:
        return {"status": "not_found", "message": str(error)}
    except OSError as error:
        return {"status": "io_error", "message": str(error)}


def hello(request):
    global window
    if kind == "refuse_hello":
        return {"status": "io_error", "message": "no disk today", "version": 1}
    if request["access"] == "create":
        os.makedirs(options.dir, exist_ok=True)
    os.stat(options.dir)
    with open(request["window"]["path"], "r+b") as file:
        window = mmap.mmap(file.fileno(), request["window"]["bytes"])
    capabilities = ["flush", "exists", "remove", "list", "manifests"]
    capabilities = [c for c in capabilities if c not in options.without.split(",")]
    if kind == "unknown_capability":
        capabilities.append("teleport")
    return {"status": "ok", "version": 7 if kind == "wrong_version" else 1, "lossy": options.lossy,
            "name": "test store", "capabilities": capabilities}


def serve(request):
    verb = request["verb"]
    while late:
        name, one = late.pop()
        write_file(name, shared(one))
    if verb == "hello":
        return hello(request)
    if verb == "put":
        return {"results": [attempt(put, one) for one in request["records"]]}
    if verb == "get":
        return {"results": [attempt(get, one) for one in request["records"]]}
    if verb == "exists":
        return {"results": [attempt(exists, id) for id in request["ids"]]}
    if verb == "remove":
        return {"results": [attempt(remove, id) for id in request["ids"]]}
    if verb == "list":
        return {"status": "ok", "ids": names(".r", request)}
    if verb == "list_manifests":
        return {"status": "ok", "names": names(".m", request)}
    if verb == "flush":
        if kind == "lose_unflushed":
            while pending:
                write_file(*pending.popitem())
        sync_folder()
    if verb == "read_manifest":
        data = read_file(request["name"] + ".m")
        share(request, data)
        return {"status": "ok", "bytes": len(data) - (100 if kind == "manifest_lies" else 0)}
    if verb == "commit_manifest":
        if not request["replace"] and os.path.exists(path(request["name"] + ".m")):
            return {"status": "invalid_argument", "message": "the name is taken"}
        write_file(request["name"] + ".m", shared(request))
        sync_folder()
    if verb == "remove_manifest":
        os.unlink(path(request["name"] + ".m"))
        sync_folder()
    return {"status": "ok"}


def die():
    sys.stderr.write("last words of the test store\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)


def misbehave_before(verb):
    if kind == "crash_" + verb.split("_")[0]:
        die()
    if kind == "exit_" + verb:
        sys.exit(3)
    if kind == "hang_" + verb:
        time.sleep(3600)
    if kind == "garbage_first" and verb == "put":
        print("progress: 50 %")
    if kind == "close_output" and verb == "put":
        sys.stdout.close()
        os.close(1)
        time.sleep(3600)
    if kind == "long_line" and verb == "put":
        while True:
            sys.stdout.write("x" * 65536)
    if kind == "flood_errors":
        for _ in range(64):
            sys.stderr.write("y" * 4095 + "\n")


def answer_to(request):
    answer = {"call": request["call"], **attempt(serve, request)}
    if request["verb"] in ("put", "get"):
        if kind == "short_answer":
            answer["results"].pop()
        if kind == "extra_answer":
            answer["results"].append({"status": "ok", "bytes": 4096})
        if kind == "bad_status":
            answer["results"][0] = {"status": "fine"}
        if kind == "no_call":
            del answer["call"]
        if kind == "not_json":
            return "ok"
    return json.dumps(answer)


if kind == "slow_reader":
    time.sleep(3600)
for line in sys.stdin:
    request = json.loads(line)
    verb = request["verb"]
    misbehave_before(verb)
    text = answer_to(request)
    if kind == "forget" and verb == "flush":  # its records are gone, and nothing was said
        for name in os.listdir(options.dir):
            if name.endswith(".r"):
                os.unlink(path(name))
    print(text, flush=True)
    if verb in ("put", "get") and kind in ("duplicate", "garbage"):
        print(text if kind == "duplicate" else "\x1b[2Jdone!", flush=True)
    if verb == "close":
        break
